-- Makes a new item available, which nobody can have ordered yet.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 epoch in which the item was stored, 2 forget at (ms), 3... fields and values
-- Reply 1, or 0 when the item exists, or has a leader of this epoch or a later one, which loads it
--
-- One step: the caller may be late, and the item recovered and sold by then.
local led = redis.call('HGET', lead, 'epoch')
if redis.call('EXISTS', item) == 1 or led and tonumber(led) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', item, 'next', 0, 'forget', ARGV[2], unpack(ARGV, 3))
redis.call('PEXPIREAT', item, ARGV[2])
return 1
