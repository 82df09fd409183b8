-- Exchanges news about bans between a process and Redis, which holds the authoritative list.
--
-- KEYS[1]  …:state    HASH  origin, number of the last change, time of the last message; TTL: 7 days, or until the later end of the other keys
-- KEYS[2]  …:known    HASH  a ban by target, kept after its end while it makes the next one longer
-- KEYS[3]  …:changes  ZSET  targets by the number of their last change
-- KEYS[4]  …:ends     ZSET  targets by their expiry (µs); the last one is the expiry of these three keys
-- KEYS[5]  …:events   ZSET  events not yet recorded by a history, by the number of the change; 7 days
-- KEYS[6]  …:alive    ZSET  processes by the time of their last message (µs); 15 s
-- ARGV[1]  the time in µs, for tests; 0 = Redis' own clock
-- ARGV[2]  channel on which changes are announced to the processes
-- ARGV[3]  the calling process, or ''
-- ARGV[4]  the last change that it has
-- ARGV[5]  a random word, the new origin if Redis has none
-- ARGV[6…] maximum number of targets, of bans in a reply, of events in a reply (0: none are wanted), and of events kept
-- ARGV[10…] number of bans ordered, lifted and restored, of events recorded, and of targets asked for; then these, in this order:
--          ordered   target, reason, rule or '', length, 1 if growing, maximum length
--          lifted    target, how long to remember it
--          restored  target, reason, rule, since, until, times, how long to remember it
--          logged    id
--          asked for target
-- Times and lengths are µs. A ban whose until equals its since has been lifted.
--
-- Replies origin, now, number of the last change in the reply, processes alive, 1 if there are more changes, bans that were lifted, then
-- a list of bans (target, reason, rule, since, until, times, change each), and one of events (id, time, 1 if lifted, and a ban each).
--
-- Must be atomic: whether a ban is a target's second one, ends later than the one in force, or fits beside the others, depends on
-- concurrent bans by other processes; and a process that has all changes up to a number must not miss one with a lower number.
--
-- A key that Redis has lost, or that is of another type, is made again from the bans that are there, and the list gets a new origin: the
-- processes restore what is missing.

local call = redis.call
local state, known, changes, ends, events, alive = unpack(KEYS)
local channel, process, since = ARGV[2], ARGV[3], tonumber(ARGV[4])
local most, page, event_page, kept = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local now = tonumber(ARGV[1])
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local week = 7 * 24 * 3600 * 1000000

local function text(n) return string.format('%.0f', n) end

local at = 14
local function arg()
  at = at + 1
  return ARGV[at]
end

local function drop_unless(fits, key)
  if not fits then call('DEL', key) end
end

-- Everything is read before the first write.
local has, size = try('HMGET', state, 'origin', 'change', 'seen') or {}, try('HLEN', known)
local by_change, by_end, recorded, living = try('ZCARD', changes), try('ZCARD', ends), try('ZCARD', events), try('ZCARD', alive)
local origin, last, seen = has[1], tonumber(has[2] or 0), tonumber(has[3] or 0) or 0
local whole = last and size and recorded and size == by_change and size == by_end
local changed = not whole

drop_unless(living, alive)
drop_unless(recorded, events)
drop_unless(size, known)
if not origin or not whole then
  drop_unless(origin and last, state)
  origin, last = ARGV[5], last or 0
  call('HSET', state, 'origin', origin)
end

-- Change numbers are times, so that a Redis that lost recent changes does not reuse their numbers.
local function number()
  last, changed = math.max(last + 1, now), true
  return last
end

-- Returns a stored ban, or nil if there is none or it cannot be read.
local function decode(packed)
  local ok, ban = pcall(cmsgpack.unpack, packed)
  if not ok or type(ban) ~= 'table' or type(ban.reason) ~= 'string' or type(ban.rule) ~= 'string' then return end
  for _, field in ipairs({ 'since', 'till', 'ends', 'times', 'memory', 'change' }) do
    if type(ban[field]) ~= 'number' then return end
  end
  return ban
end

local function read(target)
  local packed = call('HGET', known, target)
  return packed and decode(packed)
end

local function in_force(ban) return ban.ends > now end

local function index(target, ban)
  call('ZADD', changes, text(ban.change), target)
  call('ZADD', ends, text(ban.ends + ban.memory), target)
end

local function write(target, ban)
  ban.change = number()
  call('HSET', known, target, cmsgpack.pack(ban))
  index(target, ban)
end

local function forget(target)
  call('HDEL', known, target)
  call('ZREM', changes, target)
  call('ZREM', ends, target)
end

if not whole then
  call('DEL', changes, ends)
  local all = call('HGETALL', known)
  for i = 1, #all, 2 do
    local ban = decode(all[i + 1])
    if ban then
      last = math.max(last, ban.change)
      index(all[i], ban)
    else
      call('HDEL', known, all[i])
    end
  end
end

-- If the clock was set back, a ban from the future begins now, or ended now if it was lifted. It gets a number, so that all processes
-- receive it. Bans of the future are those whose last number is; the ones that come first have not been cut.
local function cut(ban)
  local ahead = ban.since - now
  if ban.till <= ban.since then
    if ban.ends <= now then return false end
    ban.ends = now
  elseif ahead <= 0 then
    return false
  else
    ban.ends = ban.ends - ahead
  end
  if ahead > 0 then ban.since, ban.till = now, ban.till - ahead end
  return true
end

local at_once = 1000 -- so many bans take Redis a few ms; the next message continues
if seen > now + 1000000 then
  local future, cuts = call('ZRANGEBYSCORE', changes, '(' .. text(now), '+inf', 'LIMIT', 0, at_once), 0
  for _, target in ipairs(future) do
    local ban = read(target)
    if ban and cut(ban) then
      write(target, ban)
      cuts = cuts + 1
    end
  end
  if cuts == 0 or #future < at_once then seen = now end
else
  seen = now
end

-- Reports whether another target can be stored. Drops expired bans to make room.
local function room()
  if call('HLEN', known) < most then return true end
  local first = call('ZRANGE', ends, 0, 0)[1]
  local ban = read(first)
  if ban and in_force(ban) then return false end
  forget(first)
  return true
end

local function tell(target, ban, lifted)
  call('ZADD', events, text(ban.change), cmsgpack.pack({ origin .. '-' .. text(ban.change), now, lifted, target, ban.reason, ban.rule,
    ban.since, ban.till, ban.times }))
end

for _, target in ipairs(call('ZRANGEBYSCORE', ends, '-inf', text(now), 'LIMIT', 0, 100)) do forget(target) end

local asked = {} -- targets that the reply must contain

for _ = 1, tonumber(ARGV[10]) do
  local target, reason, rule, length, growing, at_most = arg(), arg(), arg(), tonumber(arg()), arg(), tonumber(arg())
  local before, times = read(target), 1
  local running = before and in_force(before)
  if running then
    times = before.times
  elseif before and now - before.ends < at_most then
    times = before.times + 1
  end
  if growing == '1' then length = math.min(length * 2 ^ (times - 1), math.max(length, at_most)) end
  -- A rule never shortens a ban, and refusals during a ban do not extend it: a banned caller is always refused.
  local stands = running and rule ~= '' and (before.rule == rule or before.till >= now + length)
  if not stands and (before or room()) then
    local ban = {
      reason = reason, rule = rule, since = now, till = now + length, ends = now + length, times = times, memory = at_most,
    }
    write(target, ban)
    tell(target, ban, 0)
  end
  asked[#asked + 1] = target
end

local lifted = 0
for _ = 1, tonumber(ARGV[11]) do
  local target, memory = arg(), tonumber(arg())
  local ban = read(target)
  if ban and in_force(ban) then
    lifted = lifted + 1
    ban.ends = now
    local was = ban.till
    ban.till = ban.since
    write(target, ban)
    ban.till = was
    tell(target, ban, 1)
  elseif not ban and room() then
    -- Redis may have lost the ban. Record it as lifted, so that no process restores it.
    write(target, { reason = '', rule = '', since = now, till = now, ends = now, times = 0, memory = memory })
  end
  asked[#asked + 1] = target
end

for _ = 1, tonumber(ARGV[12]) do
  local target, ban = arg(), { reason = arg(), rule = arg(), since = tonumber(arg()), till = tonumber(arg()), times = tonumber(arg()) }
  ban.memory, ban.ends, ban.since = tonumber(arg()), ban.till, math.min(ban.since, now)
  if in_force(ban) and call('HEXISTS', known, target) == 0 and room() then write(target, ban) end
end

for _ = 1, tonumber(ARGV[13]) do
  local change = string.match(arg(), '%-(%d+)$')
  if change then call('ZREMRANGEBYSCORE', events, change, change) end
end

for _ = 1, tonumber(ARGV[14]) do asked[#asked + 1] = arg() end

if process ~= '' then
  call('ZADD', alive, text(now), process)
  call('PEXPIRE', alive, 15000)
end
call('ZREMRANGEBYSCORE', alive, '-inf', text(now - 15000000))
call('ZREMRANGEBYSCORE', alive, text(now + 15000000), '+inf') -- the clock was set back

call('HSET', state, 'seen', text(seen))
local final = call('ZRANGE', ends, -1, -1, 'WITHSCORES')[2]
final = final and math.max(0, tonumber(final) - now) or 0
if changed then
  call('HSET', state, 'change', text(last))
  for i = 2, 4 do call('PEXPIRE', KEYS[i], text(math.ceil(final / 1000) + 1000)) end
  call('ZREMRANGEBYRANK', events, 0, -kept - 1)
  call('PEXPIRE', events, text(week / 1000))
  redis.pcall('PUBLISH', channel, text(last)) -- without permission for the channel, the processes see the change at their next message
end
call('PEXPIRE', state, text(math.ceil(math.max(final, week) / 1000) + 1000))

local bans = {}
local function add(target, ban)
  for _, v in ipairs({ target, ban.reason, ban.rule, ban.since, ban.till, ban.times, ban.change }) do bans[#bans + 1] = v end
end

local news = call('ZRANGEBYSCORE', changes, '(' .. text(since), '+inf', 'LIMIT', 0, page)
local upto, more = last, 0
for i, target in ipairs(news) do
  local ban = read(target)
  -- A process without any changes needs no expired bans, but it needs lifted ones: it may have received them as bans in another way.
  if ban and (since > 0 or in_force(ban) or ban.till <= ban.since) then add(target, ban) end
  if i == page then upto, more = tonumber(call('ZSCORE', changes, target)), 1 end
end
for _, target in ipairs(asked) do
  local ban = read(target)
  if ban then add(target, ban) end
end

local page_of_events = {}
if event_page > 0 then
  for _, event in ipairs(call('ZRANGE', events, 0, event_page - 1)) do
    local ok, values = pcall(cmsgpack.unpack, event)
    if ok and type(values) == 'table' and #values == 9 then
      for _, v in ipairs(values) do page_of_events[#page_of_events + 1] = v end
    else
      call('ZREM', events, event)
    end
  end
end
return { origin, now, upto, math.max(1, call('ZCARD', alive)), more, lifted, bans, page_of_events }
