-- Gives a buyer the right to order, or takes it back for good.
--
-- KEYS  prelude.lua
-- ARGV  1 buyer's hash, 2 for how long in ms, 0 to take it back, 3 units that it is for, 4 room that gives it,
--       5 when the buyer was admitted, in ms: a right that was taken back is given to a later admission only
-- Reply 1, or 0 when it has been used, or -1 when Redis does not have the item, or the item is being recovered
--
-- One step: a right that is used or taken back meanwhile must not be given a second time.
local it = redis.call('HMGET', item, 'forget', 'recovering')
if not it[1] or it[2] then
  return -1
end
local of, what, since = string.match(redis.call('HGET', turns, ARGV[1]) or '', '^(%S+) (%S+) (%S+)$')
local turn = ARGV[4] .. ' ' .. string.format('%.0f', now_ms() + ARGV[2]) .. ' ' .. ARGV[3]
if of == ARGV[4] and what == 'used' then
  return 0
elseif ARGV[2] == '0' then
  turn = ARGV[4] .. ' revoked ' .. ARGV[5]
elseif of == ARGV[4] and what == 'revoked' and tonumber(ARGV[5]) <= tonumber(since) then
  return 1
end
redis.call('HSET', turns, ARGV[1], turn)
redis.call('PEXPIREAT', turns, it[1])
return 1
