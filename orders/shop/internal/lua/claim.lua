-- Claims reservations that have been in the outbox for a given time.
--
-- KEYS  prelude.lua
-- ARGV  1 minimum age in ms, 2 maximum number
-- Reply the reservations, or nil when a key is damaged
--
-- One step: the claim is the new score, so a second sweeper finds them only
-- after the same age again.
local now = now_ms()
local ids = try('ZRANGEBYSCORE', outbox, '-inf', now - ARGV[1], 'LIMIT', 0, ARGV[2])
if not ids or #ids == 0 then
  return ids or false
end
local records = try('HMGET', pending, unpack(ids))
if not records then
  return false
end
local claims = {}
for _, id in ipairs(ids) do
  claims[#claims + 1] = now
  claims[#claims + 1] = id
end
redis.call('ZADD', outbox, 'XX', unpack(claims))
return records
