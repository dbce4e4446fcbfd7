"""One file per command. A new file that defines `command` is a new command; nothing else has to know it."""
