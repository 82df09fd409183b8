-- Makes a new item available, which cannot have orders yet.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 epoch in which the item was stored, 2 forget at (ms), 3... fields and values
-- Reply 1, or 0 when the item exists, or has a leader of this epoch or a later one, which loads it
--
-- One step: the caller may be late, and the item recovered and sold by then.
local led = whole(try('HGET', lead, 'epoch'))
if redis.call('EXISTS', unpack(KEYS, 1, 8)) > 0 or led and led >= tonumber(ARGV[1]) then
  return 0
end
create(unpack(ARGV, 2))
return 1
