-- define SEMAPHORE LIMIT LEASE EXISTED ABSENT: what the semaphore is from now on; ABSENT 1 changes one that is defined in nothing. LIMIT -1
-- takes the definition back: holders go on, nobody else comes in.
--
-- Replies defined, version
local function define(s, limit, lease, existed, absent)
  if limit < 0 then
    if s.limit then
      call('HDEL', s.meta, 'limit')
      s.limit, s.version = nil, s.version + 1
      call('HSET', s.meta, 'version', s.version)
    end
    return { 'defined', s.version }
  end
  if s.limit and (absent or s.limit == limit and s.lease == lease) then return { 'defined', s.version } end
  if not s.run then
    s.run, s.broke, s.quiet = run, now, existed and now + lease or 0
  end
  s.limit, s.lease, s.longest, s.version = limit, lease, math.max(s.longest, lease), s.version + 1
  call('HSET', s.meta, 'limit', text(limit), 'lease', text(lease), 'longest', text(s.longest), 'version', s.version)
  call('PERSIST', s.meta)
  return { 'defined', s.version }
end

-- status SEMAPHORE: what there is to be seen of it.
--
-- Replies status, limit or -1, lease, version, weight held, how many wait, mean time held, µs of no grants to come, counts of granted, waited, waited_us,
-- timed_out, lost and abandoned; a list of holders (key, token, weight, holder, since, lease end, also each); one of waiters (key, weight,
-- holder, since each). Of each at most the first 1000.
local function status(s)
  local counts = call('HMGET', s.meta, 'granted', 'waited', 'waited_us', 'timed_out', 'lost', 'abandoned')
  for i, name in ipairs({ 'granted', 'waited', 'waited_us', 'timed_out', 'lost', 'abandoned' }) do
    counts[i] = text((counts[i] or 0) + (s.counts[name] or 0))
  end
  local holders, waiters = {}, {}
  local held = call('ZRANGE', s.holders, 0, 999, 'WITHSCORES')
  for i = 1, #held, 2 do
    local e = entry(s, held[i])
    for _, v in ipairs({ held[i], text(e.token), e.weight, e.holder, text(e.since), held[i + 1], e.also or '' }) do holders[#holders + 1] = v end
  end
  for _, key in ipairs(call('ZRANGE', s.queue, 0, 999)) do
    local e = entry(s, key)
    for _, v in ipairs({ key, e.weight, e.holder, text(e.since) }) do waiters[#waiters + 1] = v end
  end
  return { 'status', text(s.limit or -1), text(s.lease or 0), s.version, s.used, call('ZCARD', s.queue), text(s.hold), text(math.max(0, s.quiet - now)),
    counts, holders, waiters }
end
