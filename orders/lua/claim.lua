-- Claims reservations that have been in the outbox for a given time.
--
-- KEYS  prelude.lua
-- ARGV  1 minimum age in ms, 2 maximum number
-- Reply the reservations
--
-- One step: the claim is the new score, so a second sweeper finds them only
-- after the same age again.
local now = now_ms()
local ids = redis.call('ZRANGEBYSCORE', outbox, '-inf', now - ARGV[1], 'LIMIT', 0, ARGV[2])
if #ids == 0 then
  return {}
end
local claims = {}
for _, id in ipairs(ids) do
  claims[#claims + 1] = now
  claims[#claims + 1] = id
end
redis.call('ZADD', outbox, 'XX', unpack(claims))
return redis.call('HMGET', pending, unpack(ids))
