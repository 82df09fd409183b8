-- Decides whether the program may be run for a ban now, and records that the firewall will have it.
--
-- KEYS[1]  …:runs          ZSET    bans of the last minute by their time (µs): those that were run, and first orders while the breaker was
--                                  open; a minute
-- KEYS[2]  …:open          STRING  exists while the breaker is open; a minute
-- KEYS[3]  …:sent:<target> STRING  exists while the firewall may have the target
-- ARGV[1]  maximum number of runs within a minute
-- ARGV[2]  first: the first request for this ban; again: it was held back, or the program failed; free: the firewall should have the ban
--          already, so it does not count
-- ARGV[3]  ms for which the firewall will have it
-- ARGV[4]  a unique name of this request
--
-- Replies the ms to wait before the next attempt, 0 to run now; 1 if this request has opened the breaker; ms for which it stays open.
--
-- The breaker opens when more bans than the maximum are ordered within a minute, and closes after a minute without that. Bans that were
-- held back do not open it, because otherwise those of one burst would keep it open for ever. They wait for room.
--
-- Must be atomic: of two workers that both see room for one run, both would run.

local runs, open, sent = unpack(KEYS)
local most, kind = tonumber(ARGV[1]), ARGV[2]
local minute = 60000000

-- Everything is read before the first write.
local left = redis.call('PTTL', open)
if kind == 'free' then
  if left > 0 and redis.call('EXISTS', sent) == 0 then return { left, 0, left } end -- it is one of those held back
else
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local function text(n) return string.format('%.0f', n) end
  local from, to = '(' .. text(now - minute), text(now)
  local count = try('ZCOUNT', runs, from, to)
  local oldest = count and redis.call('ZRANGEBYSCORE', runs, from, to, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if count then
    redis.call('ZREMRANGEBYSCORE', runs, '-inf', text(now - minute))
    redis.call('ZREMRANGEBYSCORE', runs, '(' .. to, '+inf') -- the clock was set back
  else
    redis.call('DEL', runs) -- it is of another type: the runs of the last minute are unknown
    count = 0
  end
  local full, opened = count >= most, 0
  if full and kind == 'first' then
    if left == -2 then opened = 1 end -- it does not exist
    left = minute / 1000
    redis.call('SET', open, 1, 'PX', left)
  end
  if not full and (left <= 0 or kind == 'first') then
    redis.call('ZADD', runs, to, ARGV[4])
    redis.call('PEXPIRE', runs, minute / 1000)
  end
  if left > 0 then return { left, opened, left } end
  if full then return { math.max(1, math.ceil((oldest + minute - now) / 1000)), 0, 0 } end
end
redis.call('SET', sent, 1, 'PX', ARGV[3])
return { 0, 0, 0 }
