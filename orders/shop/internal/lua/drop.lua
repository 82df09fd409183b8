-- Frees the memory of an item in an epoch that is over.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 token of the leader that has sealed and loaded it
-- Reply how many keys there were, or 0 when another leader has the item
--
-- One step: a deposed leader must not delete what the next leader may be reading.
if not leads(ARGV[1]) then
  return 0
end
return redis.call('UNLINK', item, returned, pending, outbox, keys, buyers, holders, turns)
