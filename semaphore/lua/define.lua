-- define SEMAPHORE LIMIT LEASE EXISTED ABSENT: what the semaphore is from now on; ABSENT 1 changes one that is defined in nothing. LIMIT -1
-- takes the definition back: holders go on, nobody else comes in.
--
-- Replies defined, version
local function define(s, limit, lease, existed, absent)
  if limit < 0 then
    if s.limit then
      call('HDEL', s.keys.meta, 'limit')
      s.limit, s.was.limit, s.version = nil, nil, s.version + 1
      for _, waits in ipairs(call('ZRANGE', s.keys.processes, 0, 999)) do tell(waits, 'look') end
    end
  elseif not s.limit or not absent and (s.limit ~= limit or s.lease ~= lease) then
    if not s.run then
      s.run = run
      if existed then s.broke, s.quiet = now, now + lease end
    end
    s.limit, s.lease, s.longest, s.version = limit, lease, math.max(s.longest, lease), s.version + 1
    call('PERSIST', s.keys.meta)
  end
  return { 'defined', s.version }
end

-- status SEMAPHORE: what there is to be seen of it.
--
-- Replies status, limit or -1, lease, version, weight held, how many wait, mean time held, µs of no grants to come, counts of granted, waited, waited_us,
-- timed_out, lost and abandoned; a list of holders (key, token, weight, holder, since, lease end, also each); one of waiters (key, weight,
-- holder, since each). Of each at most the first 1000.
local function status(s)
  flush(s)
  begin(s)
  local counts = {}
  for i, name in ipairs({ 'granted', 'waited', 'waited_us', 'timed_out', 'lost', 'abandoned' }) do counts[i] = s[name] end
  local holders, waiters = {}, {}
  local held = call('ZRANGE', s.keys.holders, 0, 999, 'WITHSCORES')
  for i = 1, #held, 2 do
    local e = entry(s, held[i])
    if e then
      for _, v in ipairs({ held[i], e.token, e.weight, e.holder, e.since, held[i + 1], e.also }) do holders[#holders + 1] = v end
    end
  end
  for _, key in ipairs(call('ZRANGE', s.keys.queue, 0, 999)) do
    local e = entry(s, key)
    if e then
      for _, v in ipairs({ key, e.weight, e.holder, e.since }) do waiters[#waiters + 1] = v end
    end
  end
  return { 'status', s.limit or -1, s.lease, s.version, s.used, s.size, s.hold, math.max(0, s.quiet - now),
    counts, holders, waiters }
end
