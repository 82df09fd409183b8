-- The ladder for failed logins: reserve, check, report and settle attempts. It is one script because an attempt is counted in all its states
-- and judged by all of them at once: of guesses that are sent at the same time none may slip through between looking and counting.
-- It says what ladder.go and turn.go say in Go, function by function; a test holds them together.
--
-- KEYS     for each call the keys of its states, in the order of their kinds, and that of its record, if it has one
-- ARGV[1]  '>I8' the time in µs, 0 for Redis' own; the ladder, as ladder.pack writes it
-- ARGV[2…] the calls, each packed as '>BBBc6I8B': op, bits of the kinds that are there, flags (1: in the device's lane, 2: solved,
--          4: has a record), tag of the name, time of the reservation in µs, letter of the result
--
-- Replies  for each call '>BBBBI8I8I4B' and for each trip 'BI8I4': action (of a settlement its outcome), rule that decided (255: none), flags
--          (1: held, 2: in the device's lane, 4: from a record), rule in shadow (255: none), µs left, time in µs, failures, trips: rule, until, times
--
-- A state is a STRING: '>I2' units of '>I8' (time in µs, twice, and 1 if it is under way), of an address with 6 bytes for the name; then
-- marks of '>I4I8I4': rule, until, times. It lives until it means nothing any more.

local call, pack, unpack_bytes, values = redis.call, struct.pack, struct.unpack, unpack
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local by_name, by_pair, by_ip, by_network, by_device = 0, 1, 2, 3, 4
local allow, challenge, delay, deny, ban, revoke = 0, 1, 2, 3, 4, 5
local op_reserve, op_check, op_report, op_settle = 0, 1, 2, 3
local settled, settled_other, settled_late = 0, 1, 2

local second = 1000000
local day = 24 * 60 * 60 * second
local settle_within, hold_for, streak_memory = 30 * second, second, 30
local record_life, settled_life = 60, 3600 -- seconds


local now
local rules, rules_of, horizon, keep, room = {}, {}, {}, {}, {}

do
  local text, at = ARGV[1], 9
  now = unpack_bytes('>I8', text)
  if now == 0 then
    local time = call('TIME')
    now = time[1] * second + time[2]
  end
  for k = by_name, by_device do
    horizon[k], keep[k], room[k], at = unpack_bytes('>I8I8I4', text, at)
    rules_of[k] = {}
  end
  local n
  n, at = unpack_bytes('B', text, at)
  for i = 0, n - 1 do
    local r = { index = i }
    local flags
    r.kind, r.action, flags, r.id, r.limit, r.window, r.length, r.at_most, at = unpack_bytes('>BBBI4I4I8I8I8', text, at)
    r.distinct, r.consecutive = flags % 2 >= 1, flags % 4 >= 2
    r.growing, r.shadow = flags % 8 >= 4, flags % 16 >= 8
    rules[i + 1] = r
    table.insert(rules_of[r.kind], r)
  end
end

-- All states of the script, by key, read at once and written at its end: of many calls for one name each meets what the one before left.
local states = {}

local function state_of(kind, raw)
  local s = { kind = kind, units = {}, marks = {}, there = raw and true or false }
  if not raw then return s end
  local n, at = unpack_bytes('>I2', raw)
  for i = 1, n do
    local u = {}
    local t
    t, at = unpack_bytes('>I8', raw, at)
    u.pending = t % 2 == 1
    u.at = (t - t % 2) / 2
    if kind == by_ip then
      u.name = string.sub(raw, at, at + 5)
      at = at + 6
    end
    s.units[i] = u
  end
  while at <= #raw do
    local m = {}
    m.rule, m['until'], m.times, at = unpack_bytes('>I4I8I4', raw, at)
    s.marks[m.rule] = m
  end
  return s
end
