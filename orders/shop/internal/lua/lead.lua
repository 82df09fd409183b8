-- Gives an item to the leader of an epoch, which may load it from then on.
--
-- KEYS  prelude.lua, then the leader
-- ARGV  1 epoch, 2 the leader's token, 3 forget at (ms), 4... fields and values of the item
-- Reply 1, or 0 when this epoch or a later one has another leader, or Redis has keys of this epoch
--
-- One step: of two leaders the one with the higher epoch wins, whatever the other one does later. The item is closed until
-- open.lua finds the same token.
local epoch, token = tonumber(ARGV[1]), ARGV[2]
local led = try('HMGET', lead, 'epoch', 'token') or {}
local led_epoch = whole(led[1])
if led[2] == token then
  return 1
elseif led_epoch and led_epoch >= epoch then
  return 0
elseif redis.call('EXISTS', unpack(KEYS, 1, 8)) > 0 then
  return 0
end
redis.call('DEL', lead) -- it may be damaged
redis.call('HSET', lead, 'epoch', epoch, 'token', token)
redis.call('PEXPIREAT', lead, ARGV[3])
create(ARGV[3], 'recovering', token, unpack(ARGV, 4))
return 1
