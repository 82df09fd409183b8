-- Gives an item to the leader of an epoch, which may load it from then on.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 epoch, 2 the leader's token, 3 forget at (ms), 4... fields and values of the item
-- Reply 1, or 0 when this epoch or a later one has another leader, or Redis has keys of this epoch
--
-- One step: of two leaders the one with the higher epoch wins, whatever the other one does later. The item is closed until
-- open.lua finds the same token.
local epoch, token = tonumber(ARGV[1]), ARGV[2]
local led = redis.call('HMGET', lead, 'epoch', 'token')
if led[2] == token then
  return 1
elseif led[1] and tonumber(led[1]) >= epoch then
  return 0
elseif redis.call('EXISTS', item, returned, pending, outbox, keys, buyers, holders, turns) > 0 then
  return 0
end
redis.call('HSET', lead, 'epoch', epoch, 'token', token)
redis.call('PEXPIREAT', lead, ARGV[3])
redis.call('HSET', item, 'recovering', token, 'next', 0, 'forget', ARGV[3], unpack(ARGV, 4))
redis.call('PEXPIREAT', item, ARGV[3])
return 1
