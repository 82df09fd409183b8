-- The operations, and the loop over all calls of a script.

local function reply(action, rule, flags, shadow, left, failed, penalties)
  return pack('>BBI4I4I8I8I4I2', action, flags, rule, shadow, left, now, failed, #penalties) .. table.concat(penalties)
end

local records = {} -- by key: records read or written by this script
local lives = {}   -- by key: seconds to live of the records to write, at the end of the script

local function note(record, value, seconds)
  records[record], lives[record] = value, seconds
end

-- Reports whether a record, if there is one, is a reply as attempt recorded it, without penalties.
local function is_reply(record) return record and #record == 32 and string.sub(record, -2) == '\0\0' end

-- Returns the unit, in a state of this kind, of a pending attempt that began at `at`.
local function unit(kind, at, name, device)
  if kind == by_ip then return { at = at, pending = true, name = name, owes = not device } end
  return { at = at, pending = true }
end

-- Counts a failure of an attempt that began at `at`.
local function failed(own, s, at, name, penalties)
  local u = unit(s.kind, at, name, true)
  u.pending = false
  table.insert(s.units, u)
  fail(s, now, penalties)
  if s.kind == by_pair then remember(own, now) end
end

local function attempt(op, own, name, solved, record)
  local penalties = {}
  age(own, name, penalties)
  local device = own[by_device] ~= nil and not revoked(own)
  local action, rule, left, held, shadow = evaluate(own, name, device, solved)
  for kind = by_name, by_device do
    local s = own[kind]
    if s and counts(device, kind) then
      if op == op_reserve and action == allow and kind ~= by_pair then
        table.insert(s.units, unit(kind, now, name, device))
        s.dirty = true
      elseif op == op_report and action ~= deny then
        failed(own, s, now, name, penalties)
      end
    end
  end
  if op == op_report then action, rule, left, held, shadow = evaluate(own, name, device, solved) end
  local flags = (held and 1 or 0) + (device and 2 or 0)
  local lately = failures(own)
  if record and op ~= op_check then note(record, reply(action, rule, flags + 4, shadow, left, lately, {}), record_life) end
  return reply(action, rule, flags, shadow, left, lately, penalties)
end

local function drop_own_unit(s, at, name, device)
  local own = unit(s.kind, at, name, device)
  for i, u in ipairs(s.units) do
    if u.pending and u.at == at and (s.kind ~= by_ip or u.name == name and u.owes == own.owes) then
      table.remove(s.units, i)
      return
    end
  end
end

local function settle(own, name, device, at, result, record)
  local known = records[record]
  if known then return reply(known == result and settled or settled_other, 0, 0, 0, 0, 0, {}) end
  local late, success, penalties = now >= at + settle_within, result == 's', {}
  if late and result ~= 'f' then return reply(settled_late, 0, 0, 0, 0, 0, penalties) end
  age(own, name, penalties)
  for kind = by_name, late and -1 or by_device do -- a late attempt has already been turned into a failure
    local s = own[kind]
    if s and success and (kind == by_pair or kind == by_device and device) then
      s.units, s.data, s.dirty = {}, {}, true
    elseif s and counts(device, kind) then
      s.dirty = true
      drop_own_unit(s, at, name, device)
      if result == 'f' then failed(own, s, at, name, penalties) end
      for _, r in ipairs(success and rules_of(kind) or {}) do
        if r.consecutive then s.data[r.id] = nil end
      end
    end
  end
  note(record, result, settled_life)
  return reply(settled, 0, 0, 0, 0, 0, penalties)
end

local owing, none = pack('B', 1), pack('B', 0)

local function save(key, s)
  local kind = s.kind
  local expires, parts, n = 0, { none }, 0
  for _, m in pairs(s.data) do
    n = n + 1
    table.insert(parts, pack('>I4I8I4', m.rule, m['until'], m.times))
    expires = max(expires, ends(m))
  end
  parts[1] = pack('B', n)
  for _, u in ipairs(s.units) do
    table.insert(parts, pack('>I8', u.at * 2 + (u.pending and 1 or 0)))
    if kind == by_ip then table.insert(parts, u.name .. (u.owes and owing or none)) end
    expires = max(expires, u.at + (u.pending and keep or horizon)[kind])
  end
  if #parts > 1 then
    call('PSETEX', key, max(0, ceil((expires - now) / 1000)) + 1000, table.concat(parts))
  elseif s.raw then
    call('DEL', key)
  end
end

local kinds_in = {} -- by bit set

local function kinds_of(bits)
  local kinds = kinds_in[bits]
  if not kinds then
    kinds = {}
    for kind = by_name, by_device do
      if floor(bits / 2 ^ kind) % 2 == 1 then table.insert(kinds, kind) end
    end
    kinds_in[bits] = kinds
  end
  return kinds
end

local raw, replies, at_key = call('MGET', values(KEYS)), {}, 0
for i = 2, #ARGV do
  local op, bits, flags, name, at, result = unpack_bytes('>BBBc6I8B', ARGV[i])
  local own, record = {}, nil
  for _, kind in ipairs(kinds_of(bits)) do
    at_key = at_key + 1
    local key = KEYS[at_key]
    states[key] = states[key] or state_of(kind, raw[at_key])
    own[kind] = states[key]
  end
  if flags % 8 >= 4 then
    at_key = at_key + 1
    record = KEYS[at_key]
    records[record] = records[record] or raw[at_key]
  end
  if op == op_settle then
    replies[i - 1] = settle(own, name, flags % 2 >= 1, at, string.char(result), record)
  else
    local known = record and records[record]
    replies[i - 1] = is_reply(known) and known or attempt(op, own, name, flags % 4 >= 2, record)
  end
end
for key, s in pairs(states) do
  if s.dirty then save(key, s) end
end
for record, seconds in pairs(lives) do call('SET', record, records[record], 'EX', seconds) end
return replies
