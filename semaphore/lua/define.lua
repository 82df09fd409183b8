-- define SEMAPHORE LIMIT LEASE FORGOTTEN ABSENT: sets the definition; with ABSENT 1 only if there is none. LIMIT -1 removes it: holders
-- keep their permits, and no others are granted. FORGOTTEN is how long permits may exist that Redis has lost together with the semaphore;
-- 0 if there was none.
--
-- Replies defined, version
local function define(s, limit, lease, forgotten, absent)
  if limit < 0 then
    if s.limit then
      s.limit, s.version = nil, s.version + 1
      for _, waits in ipairs(call('ZRANGE', s.keys.processes, 0, 999)) do tell(waits, 'look ' .. s.name) end
      if s.alive[process] then tell(process, 'look ' .. s.name) end -- it may not be stored yet
    end
  elseif not s.limit or not absent and (s.limit ~= limit or s.lease ~= lease) then
    if not s.run then
      s.run = run
      if forgotten > 0 then s.broke, s.kept, s.quiet = now, 0, now + forgotten end
    end
    if lease < s.longest then
      s.longest_until = math.max(s.longest_until, now + s.longest) -- by then all permits have been renewed with the shorter lease
    else
      s.longest, s.longest_until = lease, 0
    end
    s.limit, s.lease, s.version = limit, lease, s.version + 1
  end
  return { 'defined', s.version }
end

-- entries_of returns the key and entry of each of these keys that has one.
local function entries_of(s, keys)
  local packed, found = #keys > 0 and call('HMGET', s.keys.entries, unpack(keys)) or {}, {}
  for i, key in ipairs(keys) do
    local e = packed[i] and read(packed[i])
    if e then found[#found + 1] = { key, e } end
  end
  return found
end

-- status SEMAPHORE LIST: returns the state, with at most LIST holders and LIST waiters, the first ones.
--
-- Replies status, limit or -1, lease, version, weight held, number of waiters, mean holding time, µs until grants resume, counts of
-- granted, waited, waited_us, timed_out, lost and abandoned; a list of holders (key, token, weight, holder, since, lease end, also each);
-- one of waiters (key, weight, holder, since each); 1 if grants have paused because another server has the semaphore, 0 if it was lost.
local function status(s, list)
  local counts, holders, waiters = {}, {}, {}
  for i, name in ipairs({ 'granted', 'waited', 'waited_us', 'timed_out', 'lost', 'abandoned' }) do counts[i] = s[name] end
  if list > 0 then
    flush(s)
    begin(s, call('ZCARD', s.keys.queue))
    local held, ends = {}, {}
    for i, v in ipairs(call('ZRANGE', s.keys.holders, 0, list - 1, 'WITHSCORES')) do
      if i % 2 == 1 then held[#held + 1] = v else ends[held[#held]] = v end
    end
    for _, found in ipairs(entries_of(s, held)) do
      local key, e = unpack(found)
      for _, v in ipairs({ key, e.token, e.weight, e.holder, e.since, ends[key], e.also }) do holders[#holders + 1] = v end
    end
    for _, found in ipairs(entries_of(s, call('ZRANGE', s.keys.queue, 0, list - 1))) do
      local key, e = unpack(found)
      for _, v in ipairs({ key, e.weight, e.holder, e.since }) do waiters[#waiters + 1] = v end
    end
  end
  return { 'status', s.limit or -1, s.lease, s.version, s.used, s.size, s.hold, math.max(0, s.quiet - now), counts, holders, waiters, s.kept }
end
