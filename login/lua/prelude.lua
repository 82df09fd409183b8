-- The rules for failed logins: reserves, checks, reports and settles attempts. It must be atomic because an attempt is counted in all
-- its states and evaluated by all of them: no concurrent guess may slip through between checking and counting. It mirrors ruleset.go,
-- evaluate.go, fail.go and attempt.go function by function; a test compares them.
--
-- KEYS     for each call the keys of its states, in the order of their kinds, and that of its record, if it has one
-- ARGV[1]  '>I8' the time in µs, 0 for Redis' own; the rules, as encoded by ruleSet.pack
-- ARGV[2…] the calls, each packed as '>BBBc6I8B': op, bits of the kinds present, flags (1: counted by its device token, 2: solved,
--          4: has a record), tag of the name, time of the reservation in µs, letter of the result
--
-- Replies  for each call '>BBI4I4I8I8I4I2' and for each penalty that began '>I4I8I4': action (for a settlement its outcome), flags (1: held, 2: by the device
--          token, 4: from a record), rule that decided, rule in shadow (0: none), µs left, time in µs, failures, penalties: rule, until, times.
--          Rules are identified by their ids, because a record may be older than the rules in force
--
-- A state is a STRING: 'B' number of rules with data, each '>I4I8I4' (rule, until, times); then units of '>I8' (time in µs, doubled, plus 1 if
-- pending), in the state of an address followed by 'c6B': the tag of the name and whether it owes. Its TTL ends when all its data has
-- expired.

local call, pack, unpack_bytes, values = redis.call, struct.pack, struct.unpack, unpack
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local by_name, by_pair, by_ip, by_network, by_device = 0, 1, 2, 3, 4
local allow, challenge, delay, deny, ban, revoke = 0, 1, 2, 3, 4, 5
local op_reserve, op_check, op_report, op_settle = 0, 1, 2, 3
local settled, settled_other, settled_late = 0, 1, 2

local second = 1000000
local hour = 60 * 60 * second
local day = 24 * hour
local settle_within, hold_for, own_tries, network_tries = 30 * second, second, 2, 8
local streak_memory, pair_memory = 30 * day, day
local tries_rule = 0 -- no rule has this id
local max_rule_data = 100
local record_life, settled_life = 60, 120 -- seconds

local now, end_of_head
local horizon, keep, room, flight = {}, {}, {}, {} -- by kind; room: failed units, flight: pending units
now,
  horizon[0], keep[0], room[0], flight[0], horizon[1], keep[1], room[1], flight[1], horizon[2], keep[2], room[2], flight[2],
  horizon[3], keep[3], room[3], flight[3], horizon[4], keep[4], room[4], flight[4], end_of_head =
  unpack_bytes('>I8I8I8I4I4I8I8I4I4I8I8I4I4I8I8I4I4I8I8I4I4', ARGV[1])
if now == 0 then
  local time = call('TIME')
  now = time[1] * second + time[2]
end

-- The rules of a kind, decoded at the first use.
local rules
local rules_by_id = {}
local function rules_of(kind)
  if not rules then
    rules = { [0] = {}, {}, {}, {}, {} }
    local n, at = unpack_bytes('B', ARGV[1], end_of_head)
    for _ = 1, n do
      local r, flags = {}, nil
      r.kind, r.action, flags, r.id, r.limit, r.window, r.length, r.at_most, at = unpack_bytes('>BBBI4I4I8I8I8', ARGV[1], at)
      r.distinct, r.consecutive = flags % 2 >= 1, flags % 4 >= 2
      r.growing, r.shadow = flags % 8 >= 4, flags % 16 >= 8
      table.insert(rules[r.kind], r)
      rules_by_id[r.id] = r
    end
  end
  return rules[kind]
end

-- All states of the script by key, read once and written at its end: later calls for the same name see the changes of earlier ones.
local states = {}

local function parse(s, raw)
  local at = 2
  for _ = 1, string.byte(raw) do
    local m = {}
    m.rule, m['until'], m.times, at = unpack_bytes('>I4I8I4', raw, at)
    s.data[m.rule] = m
  end
  while at <= #raw do
    local u = {}
    local t
    t, at = unpack_bytes('>I8', raw, at)
    u.pending = t % 2 == 1
    u.at = (t - t % 2) / 2
    if s.kind == by_ip then
      u.name, u.owes, at = unpack_bytes('c6B', raw, at)
      u.owes = u.owes == 1
    end
    table.insert(s.units, u)
  end
end

-- What cannot be parsed counts as empty, and is replaced by the next write, like a key of another type, which MGET does not return:
-- otherwise one damaged key would stop all logins of a name or an address.
local function state_of(kind, raw)
  local s = { kind = kind, raw = raw, units = {}, data = {} }
  if raw and not pcall(parse, s, raw) then s.units, s.data = {}, {} end
  return s
end

