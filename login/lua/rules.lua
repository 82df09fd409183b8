-- The rules applied to states: ruleset.go, evaluate.go and fail.go in Lua.

local function memory(r, times)
  if r.action == revoke and times >= r.limit then return r.at_most end
  if r.consecutive then return min(times * hour, streak_memory) end
  if r.growing then return max(r.window, r.at_most) end
  return 0
end

local function lasts(r, times)
  local length = r.length
  if not r.growing then return length end
  while times > 1 and length < r.at_most do
    length, times = length * 2, times - 1
  end
  return min(length, r.at_most)
end

local function data_of(s, r)
  return s.data[r.id] or { rule = r.id, ['until'] = 0, times = 0 }
end

local function pending(s)
  local n = 0
  for _, u in ipairs(s.units) do
    if u.pending then n = n + 1 end
  end
  return n
end

local function count(s, r, t)
  local failed, all = 0, 0
  if r.consecutive then
    failed = data_of(s, r).times
    return failed, failed + pending(s)
  end
  local names = r.distinct and {}
  for _, u in ipairs(s.units) do
    if u.at > t - r.window then
      if names then
        names[u.name] = names[u.name] or (u.pending and 1 or 2)
        if not u.pending then names[u.name] = 2 end
      else
        all = all + 1
        if not u.pending then failed = failed + 1 end
      end
    end
  end
  if names then
    for _, how in pairs(names) do
      all = all + 1
      if how == 2 then failed = failed + 1 end
    end
  end
  return failed, all
end

local function fail(s, t, penalties)
  s.dirty = true
  for _, r in ipairs(rules_of(s.kind)) do
    local m = data_of(s, r)
    local fresh, exceeded = t >= m['until'], true
    if r.consecutive then
      m.times = m.times + 1
      m['until'] = t + r.length
      s.data[r.id] = m
      if r.length == 0 then fresh = m.times == r.limit else fresh = fresh and m.times >= r.limit end
    else
      local failed = count(s, r, t)
      if failed < r.limit then
        exceeded = false
      elseif r.length == 0 then
        fresh = failed == r.limit
      elseif r.action == deny and t < m['until'] then -- a denial does not extend itself
        exceeded = false
      else
        if t > m['until'] + memory(r, m.times) then m.times = 0 end
        m.times = m.times + 1
        m['until'] = t + lasts(r, m.times)
        s.data[r.id] = m
      end
    end
    if exceeded and (fresh or r.action == ban and not r.shadow) then
      table.insert(penalties, pack('>I4I8I4', r.id, r.length == 0 and 0 or m['until'], fresh and m.times or 0))
    end
  end
end

local function ends(m)
  if m.rule == tries_rule then return m['until'] end
  if not rules then rules_of(by_name) end
  local r = rules_by_id[m.rule]
  return m['until'] + (r and memory(r, m.times) or min(m.times * hour, streak_memory))
end

-- Ends penalties when they would end if they began now: if they end later, the clock was set back.
local function cut(s)
  for _, m in pairs(s.data) do
    rules_of(s.kind)
    local r, longest = rules_by_id[m.rule], pair_memory
    if r then longest = r.consecutive and r.length or lasts(r, m.times) end
    if (r or m.rule == tries_rule) and m['until'] > now + longest then m['until'], s.dirty = now + longest, true end
  end
end

local function age_one(s, penalties)
  cut(s)
  for _, u in ipairs(s.units) do
    if u.at > now + settle_within then u.at, s.dirty = now, true end -- the clock was set back
    if u.pending and now >= u.at + settle_within then
      u.pending = false
      fail(s, u.at + settle_within, penalties)
    end
  end
  local kept, n = {}, pending(s)
  local surplus = { [true] = n - flight[s.kind], [false] = #s.units - n - room[s.kind] }
  for _, u in ipairs(s.units) do
    surplus[u.pending] = surplus[u.pending] - 1
    if surplus[u.pending] < 0 and u.at > now - horizon[s.kind] then table.insert(kept, u) end
  end
  s.units = kept
  local n = 0
  for _ in pairs(s.data) do n = n + 1 end
  for id, m in pairs(s.data) do
    if now > ends(m) or n > max_rule_data and id ~= tries_rule and not rules_by_id[id] then s.data[id] = nil end
  end
end

-- Keeps a failure of the pair for a day if a delay rule has acted on the name.
local function remember(own, t)
  local m = own[by_pair].data[tries_rule] or { rule = tries_rule, ['until'] = 0, times = 0 }
  for _, r in ipairs(own[by_name] and rules_of(by_name) or {}) do
    if r.action == delay and data_of(own[by_name], r).times > 0 then
      m.times, m['until'] = m.times + 1, t + pair_memory
      own[by_pair].data[tries_rule] = m
      return
    end
  end
end

-- Adds failures that were not settled in time to the pair: until then only the address has their units.
local function adopt(own, name, penalties)
  local pair, ip = own[by_pair], own[by_ip]
  if not pair then return end
  for _, u in ipairs(ip.units) do
    if u.owes and not u.pending and u.name == name then
      u.owes, ip.dirty = false, true
      table.insert(pair.units, { at = u.at, pending = false })
      fail(pair, u.at + settle_within, penalties)
      remember(own, u.at + settle_within)
    end
  end
end

local function age(own, name, penalties)
  for kind = by_name, by_device do
    if own[kind] then age_one(own[kind], penalties) end
  end
  adopt(own, name, penalties)
end

local function new_to_name(own, name)
  if not own[by_pair] or own[by_network] and #own[by_network].units >= network_tries then return false end
  local tries, known = #own[by_pair].units, own[by_pair].data[tries_rule]
  if known then tries = max(tries, known.times) end
  for _, u in ipairs(own[by_ip].units) do
    if u.owes and u.name == name then tries = tries + 1 end
  end
  return tries < own_tries
end

local function rule_state(own, r, name)
  local s = own[r.kind]
  local failed, all = count(s, r, now)
  if r.kind == by_pair then
    for _, u in ipairs(own[by_ip].units) do
      if u.owes and u.pending and u.name == name and (r.consecutive or u.at > now - r.window) then all = all + 1 end
    end
  end
  local m = data_of(s, r)
  local active = failed >= r.limit
  if r.length > 0 then
    active = now < m['until'] and (not r.consecutive or active)
  end
  return active, m['until'] - now, all > failed and all >= r.limit
end

local function counts(device, kind)
  if kind == by_name or kind == by_pair then return not device end
  if kind == by_device then return device end
  return true
end

-- Returns action, rule, left, held, shadow.
local function evaluate(own, name, device, solved)
  local action, rule, left, held = allow, 0, 0, false
  local shadow, shadow_action, shadow_left = 0, allow, 0
  local is_new = new_to_name(own, name)
  for kind = by_name, by_device do
    local s = own[kind]
    if s and counts(device, kind) then
      for _, r in ipairs(rules_of(kind)) do
        local asked = not device or kind == by_device or r.action == ban
        if kind == by_name and r.action == delay and is_new or r.action == challenge and solved then asked = false end
        local does, helps, holds = allow, 0, false
        if asked then
          local active, rest, too_many = rule_state(own, r, name)
          if active and r.action < ban then
            does, helps = r.action, r.length == 0 and 0 or rest
          elseif too_many then
            does, helps, holds = delay, hold_for, true
          end
        end
        if r.shadow then
          if does > shadow_action or does == shadow_action and helps > shadow_left then
            shadow, shadow_action, shadow_left = r.id, does, helps
          end
        elseif does > action or does == action and helps > left then
          action, rule, left, held = does, r.id, helps, holds
        end
      end
    end
  end
  -- The pending units of an address are the only record of its pairs, so none may be dropped for lack of room.
  if own[by_ip] and action < delay and pending(own[by_ip]) >= flight[by_ip] then action, rule, left, held = delay, 0, hold_for, true end
  return action, rule, left, held, shadow
end

local function revoked(own)
  for _, r in ipairs(rules_of(by_device)) do
    if r.action == revoke and not r.shadow and rule_state(own, r) then return true end
  end
  return false
end

local function failures(own)
  local most = 0
  for kind = by_name, by_ip, by_ip do
    local s = own[kind]
    if s then
      local failed = 0
      for _, u in ipairs(s.units) do
        if not u.pending then failed = failed + 1 end
      end
      most = max(most, failed)
      for _, r in ipairs(next(s.data) and rules_of(kind) or {}) do
        if r.consecutive then most = max(most, data_of(s, r).times) end
      end
    end
  end
  return most
end
