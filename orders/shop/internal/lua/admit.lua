-- Gives a buyer the right to order, or takes it back for good.
--
-- KEYS  prelude.lua
-- ARGV  1 buyer's hash, 2 for how long in ms, 0 to take it back, 3 units that it is for, 4 room that gives it,
--       5 when the buyer was admitted, in ms: a right that was taken back is given to a later admission only,
--       6 counts that the caller has seen
-- Reply {counts, 1, or 0 when it has been used}, or {} when Redis does not have the item whole, or has it in an earlier
--       state, or the item is being recovered
--
-- One step: a right that is used or taken back meanwhile must not be given a second time.
local it = read(ARGV[6])
if not it or it.recovering then
  return {}
end
local of, what, since = string.match(redis.call('HGET', turns, ARGV[1]) or '', '^(%S+) (%S+) (%S+)$')
local turn = ARGV[4] .. ' ' .. string.format('%.0f', now_ms() + ARGV[2]) .. ' ' .. ARGV[3]
if of == ARGV[4] and what == 'used' then
  return {counts(it), 0}
elseif ARGV[2] == '0' then
  turn = ARGV[4] .. ' revoked ' .. ARGV[5]
elseif of == ARGV[4] and what == 'revoked' and tonumber(ARGV[5]) <= tonumber(since) then
  return {counts(it), 1}
end
redis.call('HSET', turns, ARGV[1], turn)
count(it, 1)
if it.sentinels == 0 then
  redis.call('PEXPIREAT', turns, it.forget)
end
return {counts(it), 1}
