-- Steps that must be one. KEYS[1] is the user's index, a sorted set of the user's keys by when each ends (microseconds
-- by the injected clock, as ARGV[1] is). A key counts only while it stands in the index, so nothing is ever half there:
-- when Redis evicts the index, all that it named is gone at once.

-- name: shared
local index, now = KEYS[1], ARGV[1]

local function lives(key)
    local ends = redis.call('ZSCORE', index, key)
    return ends and tonumber(ends) > tonumber(now)
end

local function enrol(key, ends, ttl)
    redis.call('ZREMRANGEBYSCORE', index, '-inf', now)
    redis.call('ZADD', index, ends, key)
    if redis.call('PTTL', index) < tonumber(ttl) then
        redis.call('PEXPIRE', index, ttl)
    end
end

-- name: read
-- The values of keys: a text, a list of texts from position ARGV[2] on, or nothing.
local found = {}
for i = 2, #KEYS do
    local value = false
    if lives(KEYS[i]) then
        local kind = redis.call('TYPE', KEYS[i]).ok
        if kind == 'string' then
            value = redis.call('GET', KEYS[i])
        elseif kind == 'list' then
            value = redis.call('LRANGE', KEYS[i], ARGV[2], -1)
        end
    end
    found[i - 1] = value
end
return found

-- name: set
local ends, ttl, value = ARGV[2], ARGV[3], ARGV[4]
redis.call('SET', KEYS[2], value, 'PX', ttl)
enrol(KEYS[2], ends, ttl)

-- name: renew
-- Lets a key end at ARGV[2] in place of sooner, unless it lives until ARGV[4] anyway.
local ends, ttl, enough = ARGV[2], ARGV[3], ARGV[4]
if lives(KEYS[2]) and tonumber(redis.call('ZSCORE', index, KEYS[2])) < tonumber(enough) then
    redis.call('PEXPIRE', KEYS[2], ttl)
    enrol(KEYS[2], ends, ttl)
end

-- name: push
local ends, ttl, value, keep = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not lives(KEYS[2]) or redis.call('TYPE', KEYS[2]).ok ~= 'list' then
    redis.call('UNLINK', KEYS[2])
end
redis.call('RPUSH', KEYS[2], value)
redis.call('LTRIM', KEYS[2], -tonumber(keep), -1)
redis.call('PEXPIRE', KEYS[2], ttl)
enrol(KEYS[2], ends, ttl)

-- name: increment
local ends, ttl = ARGV[2], ARGV[3]
if lives(KEYS[2]) and redis.call('TYPE', KEYS[2]).ok == 'string' then
    local value = redis.call('GET', KEYS[2])
    if #value < 16 and string.match(value, '^-?%d+$') then  -- more digits would not pass through Lua
        return redis.call('INCR', KEYS[2])
    end
end
redis.call('SET', KEYS[2], '1', 'PX', ttl)
enrol(KEYS[2], ends, ttl)
return 1

-- name: forget
for i = 2, #KEYS do
    redis.call('UNLINK', KEYS[i])
    redis.call('ZREM', index, KEYS[i])
end
