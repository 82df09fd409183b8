-- acquire KEY WEIGHT WAIT HOLDER SEMAPHORES…: a permit in each of the semaphores or in none. WAIT 1 queues where there is none. It may be sent
-- again, and is, by those who were told to come: who holds the permit gets it again, who waits keeps its place.
--
-- Replies granted, token, lease · waiting or full, position, expected wait, µs until a lease may end, 1 if it was not in the queue ·
-- unknown, too_heavy or conflict, name
local function acquire(key, weight, wait, holder, all)
  for _, s in ipairs(all) do
    if not s.limit then return { 'unknown', s.name } end
  end
  local first = all[1]
  local e = entry(first, key)
  if e and e.token > 0 then
    e.claimed = nil
    for i, s in ipairs(all) do
      local own = entry(s, key)
      if own and own.token == e.token then
        own.claimed, own.process = nil, process
        write(s, key, own)
        call('ZADD', s.holders, text(now + e.lease), key)
      elseif i > 1 then
        return { 'conflict', s.name } -- the other request with this id asked for other semaphores
      end
    end
    return { 'granted', text(e.token), text(e.lease) }
  end
  local free = true
  for _, s in ipairs(all) do
    if weight > s.limit and s.limit > 0 then return { 'too_heavy', s.name } end
    serve(s)
    local head = call('ZRANGE', s.queue, 0, 0)[1]
    free = free and (not head or head == key) and fits(s, { weight = weight })
  end
  e = entry(first, key) -- it may just have been served
  if e and e.token > 0 then return acquire(key, weight, wait, holder, all) end
  if free then
    e = e or { weight = weight, since = now, token = 0, process = process, holder = holder }
    e.process = process
    for _, s in ipairs(all) do call('ZREM', s.queue, key) end
    grant(all, key, e)
    return { 'granted', text(e.token), text(e.lease) }
  end
  local fresh = 0
  if wait and not e then
    fresh = 1
    local place = text(number(all))
    e = { weight = weight, since = now, token = 0, holder = holder, multi = #all > 1 or nil }
    for _, s in ipairs(all) do call('ZADD', s.queue, place, key) end
  end
  if e and wait then
    e.process = process
    for _, s in ipairs(all) do
      -- Where there is room for it, only another semaphore can let it in.
      e.called = e.multi and fits(s, e) and -1 or nil
      write(s, key, e)
    end
  end
  local position, last, soonest = 0, 0, first.lease
  for _, s in ipairs(all) do
    local place = e and call('ZRANK', s.queue, key) or call('ZCARD', s.queue)
    position, last = math.max(position, place + 1), math.max(last, expected(s, place + 1))
    local ends = call('ZRANGE', s.holders, 0, 0, 'WITHSCORES')[2]
    if ends then soonest = math.min(soonest, ends - now) end
    if now < s.quiet then soonest = math.min(soonest, s.quiet - now) end
  end
  return { e and 'waiting' or 'full', position, text(last), text(soonest), fresh }
end
