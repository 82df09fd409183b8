local function reply(action, rule, flags, shadow, left, failed, trips)
  return pack('>BBBBI8I8I4B', action, rule, flags, shadow, left, now, failed, #trips) .. table.concat(trips)
end

local function attempt(op, own, name, solved, record)
  local known = record and call('GET', record)
  if known then return known end
  local trips = {}
  for kind = by_name, by_device do
    if own[kind] then age(own[kind], trips) end
  end
  local device = own[by_device] ~= nil and not revoked(own[by_device])
  local action, rule, left, held, shadow = judge(own, device, solved)
  if op == op_reserve and action == allow or op == op_report and action ~= deny then
    for kind = by_name, by_device do
      local s = own[kind]
      if s and lane_has(device, kind) then
        table.insert(s.units, { at = now, pending = op == op_reserve, name = name })
        s.dirty = true
        if op == op_report then fail(s, now, trips) end
      end
    end
  end
  if op == op_report then action, rule, left, held, shadow = judge(own, device, solved) end
  local flags = (held and 1 or 0) + (device and 2 or 0)
  local failed = failures(own)
  if record and op ~= op_check then call('SET', record, reply(action, rule, flags + 4, shadow, left, failed, {}), 'EX', record_life) end
  return reply(action, rule, flags, shadow, left, failed, trips)
end

-- Where the unit of the attempt that was reserved at `at` stands.
local function own_unit(s, at, name)
  for i, u in ipairs(s.units) do
    if u.pending and u.at == at and (s.kind ~= by_ip or u.name == name) then return i end
  end
end

local function settle(own, name, device, at, result, record)
  local trips = {}
  local known = call('GET', record)
  if known then
    return reply(known == result and settled or settled_other, 255, 0, 255, 0, 0, trips)
  end
  local late = now >= at + settle_within
  if late and result ~= 'f' then return reply(settled_late, 255, 0, 255, 0, 0, trips) end
  for kind = by_name, by_device do
    local s = own[kind]
    if s then
      age(s, trips)
      local i = own_unit(s, at, name)
      if late then
        -- it has failed by itself
      elseif result == 's' and (kind == by_pair or kind == by_device and device) then
        s.units, s.marks, s.dirty = {}, {}, true
      elseif not lane_has(device, kind) then
        -- it was not counted here
      elseif result == 'f' then
        if i then s.units[i].pending = false else table.insert(s.units, { at = at, pending = false, name = name }) end
        fail(s, now, trips)
      else
        if i then table.remove(s.units, i) end
        s.dirty = true
        if result == 's' then
          for _, r in ipairs(rules_of[kind]) do
            if r.consecutive then s.marks[r.id] = nil end
          end
        end
      end
    end
  end
  call('SET', record, result, 'EX', settled_life)
  return reply(settled, 255, 0, 255, 0, 0, trips)
end

local function save(key, s)
  local expires, parts = 0, { pack('>I2', #s.units) }
  for _, u in ipairs(s.units) do
    table.insert(parts, pack('>I8', u.at * 2 + (u.pending and 1 or 0)))
    if s.kind == by_ip then table.insert(parts, u.name) end
    expires = max(expires, u.at + keep[s.kind])
  end
  for _, r in ipairs(rules_of[s.kind]) do
    local m = s.marks[r.id]
    if m then
      table.insert(parts, pack('>I4I8I4', r.id, m['until'], m.times))
      expires = max(expires, m['until'] + memory(r, m.times))
    end
  end
  if #parts > 1 then
    call('PSETEX', key, max(0, ceil((expires - now) / 1000)) + 1000, table.concat(parts))
  elseif s.there then
    call('DEL', key)
  end
end

local calls, state_keys = {}, {}
local next_key = 0
for i = 2, #ARGV do
  local c = { own = {} }
  local bits, flags, result
  c.op, bits, flags, c.name, c.at, result = unpack_bytes('>BBBc6I8B', ARGV[i])
  c.device, c.solved, c.result = flags % 2 >= 1, flags % 4 >= 2, string.char(result)
  for kind = by_name, by_device do
    if floor(bits / 2 ^ kind) % 2 == 1 then
      next_key = next_key + 1
      c.own[kind] = KEYS[next_key]
      table.insert(state_keys, KEYS[next_key])
    end
  end
  if flags % 8 >= 4 then
    next_key = next_key + 1
    c.record = KEYS[next_key]
  end
  calls[i - 1] = c
end

local raw = call('MGET', values(state_keys))
local read = {}
for i, key in ipairs(state_keys) do read[key] = raw[i] end

local replies = {}
for i, c in ipairs(calls) do
  for kind, key in pairs(c.own) do
    states[key] = states[key] or state_of(kind, read[key])
    c.own[kind] = states[key]
  end
  if c.op == op_settle then
    replies[i] = settle(c.own, c.name, c.device, c.at, c.result, c.record)
  else
    replies[i] = attempt(c.op, c.own, c.name, c.solved, c.record)
  end
end
for key, s in pairs(states) do
  if s.dirty then save(key, s) end
end
return replies
