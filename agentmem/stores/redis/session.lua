-- Steps that must be one. KEYS[1] is the user's index, a sorted set of the user's keys by when each ends (microseconds
-- by the injected clock, as ARGV[1] is). A key counts only while it stands in the index, so nothing is ever half there:
-- when Redis evicts the index, all that it named is gone at once. KEYS[2] is a sorted set of the keys that take room of
-- a limited size, by when each was written.

-- name: shared
local index, order, now = KEYS[1], KEYS[2], ARGV[1]

local function lives(key)
    local ends = redis.call('ZSCORE', index, key)
    return ends and tonumber(ends) > tonumber(now)
end

local function enrol(key, ends, ttl)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
    redis.call('ZADD', index, ends, key)
    for _, set in ipairs({index, order}) do
        if redis.call('PTTL', set) < tonumber(ttl) then
            redis.call('PEXPIRE', set, ttl)
        end
    end
end

local function forget(key)
    redis.call('UNLINK', key)
    redis.call('ZREM', index, key)
    redis.call('ZREM', order, key)
end

local function count(key)
    if redis.call('TYPE', key).ok ~= 'list' then
        return #key + redis.call('STRLEN', key)
    end
    local bytes = #key
    for _, value in ipairs(redis.call('LRANGE', key, 0, -1)) do
        bytes = bytes + #value
    end
    return bytes
end

-- Forgets the keys written longest ago until all, with the one just written, take at most so many bytes; 0 is no limit.
local function make_room(key, limit)
    if limit == 0 then
        return
    end
    local bytes = count(key)
    for _, other in ipairs(redis.call('ZREVRANGE', order, 0, -1)) do
        if other ~= key then
            local living = lives(other)
            bytes = bytes + (living and count(other) or 0)
            if not living or bytes > limit then
                forget(other)
            end
        end
    end
    redis.call('ZADD', order, now, key)
end

-- name: read
-- The values of keys: a text, a list of texts from position ARGV[2] on, or nothing.
local found = {}
for i = 3, #KEYS do
    local value = false
    if lives(KEYS[i]) then
        local kind = redis.call('TYPE', KEYS[i]).ok
        if kind == 'string' then
            value = redis.call('GET', KEYS[i])
        elseif kind == 'list' then
            value = redis.call('LRANGE', KEYS[i], ARGV[2], -1)
        end
    end
    found[i - 2] = value
end
return found

-- name: set
local ends, ttl, value, limit = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
redis.call('SET', KEYS[3], value, 'PX', ttl)
make_room(KEYS[3], limit)
enrol(KEYS[3], ends, ttl)

-- name: renew
-- Lets a key end at ARGV[2] in place of sooner, unless it lives until ARGV[4] anyway.
local ends, ttl, enough = ARGV[2], ARGV[3], ARGV[4]
if lives(KEYS[3]) and tonumber(redis.call('ZSCORE', index, KEYS[3])) < tonumber(enough) then
    redis.call('PEXPIRE', KEYS[3], ttl)
    enrol(KEYS[3], ends, ttl)
end

-- name: push
local ends, ttl, value, limit, keep = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
if not lives(KEYS[3]) or redis.call('TYPE', KEYS[3]).ok ~= 'list' then
    redis.call('UNLINK', KEYS[3])
end
redis.call('RPUSH', KEYS[3], value)
redis.call('LTRIM', KEYS[3], -tonumber(keep), -1)
redis.call('PEXPIRE', KEYS[3], ttl)
while limit > 0 and count(KEYS[3]) > limit and redis.call('LLEN', KEYS[3]) > 1 do
    redis.call('LTRIM', KEYS[3], 1, -1)
end
make_room(KEYS[3], limit)
enrol(KEYS[3], ends, ttl)

-- name: increment
local ends, ttl = ARGV[2], ARGV[3]
if lives(KEYS[3]) and redis.call('TYPE', KEYS[3]).ok == 'string' then
    local value = redis.call('GET', KEYS[3])
    if #value < 16 and string.match(value, '^-?%d+$') then  -- more digits would not pass through Lua
        return redis.call('INCR', KEYS[3])
    end
end
redis.call('SET', KEYS[3], '1', 'PX', ttl)
enrol(KEYS[3], ends, ttl)
return 1

-- name: forget
for i = 3, #KEYS do
    forget(KEYS[i])
end
