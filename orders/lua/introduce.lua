-- Makes a new item available, of which nobody can have ordered anything.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 epoch in which the item was stored, 2 forget at (ms), 3... fields and values
-- Reply 1, or 0 when the item is there, or has a leader of this epoch or a later one, who brings it in
--
-- One step: whoever stored the item may be late, and the item be recovered and
-- sold by then.
local led = redis.call('HGET', lead, 'epoch')
if redis.call('EXISTS', item) == 1 or led and tonumber(led) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', item, 'next', 0, 'forget', ARGV[2], unpack(ARGV, 3))
redis.call('PEXPIREAT', item, ARGV[2])
return 1
