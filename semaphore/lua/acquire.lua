-- forgo removes a waiter from all its queues.
local function forgo(key, all)
  for _, s in ipairs(all) do
    local e = entry(s, key)
    if e and e.token == 0 then leave(s, key) end
  end
end

-- acquire KEY WEIGHT WAIT ATTEMPT HOLDER SEMAPHORES…: grants a permit in each of the semaphores or in none. With WAIT 1 it queues if none is
-- free. It is idempotent, and is repeated after a "come" message: a holder gets its permit again, a waiter keeps its place. ATTEMPT numbers
-- the calls in a process and is the same in repetitions; it is 1 for a key that no other request has.
--
-- Replies granted, token, lease · waiting or full, position, expected wait, µs until a lease may end, 1 if it was not in the queue ·
-- unknown, too_heavy or conflict, name
local function acquire(key, weight, wait, attempt, holder, all)
  local first = all[1]
  local e = entry(first, key)
  if e and (e.weight ~= weight or e.also ~= others(all, first)) then
    return { 'conflict', first.name } -- another request with this id has other parameters
  end
  for _, s in ipairs(all) do
    if not s.limit then
      forgo(key, all)
      return { 'unknown', s.name }
    end
  end
  if e and e.token > 0 then
    for _, s in ipairs(all) do
      local own = entry(s, key)
      if not own or own.token ~= e.token then
        return { 'conflict', s.name } -- it was partly released
      end
      if own.unclaimed then
        own.unclaimed, own.attempt = false, attempt
      elseif own.attempt ~= attempt or own.process ~= process then
        own.attempt = 0 -- several calls have got it
      end
      if own.process ~= process then own.before, own.process = own.process, process end
      hold(s, key, own, now + shortest(all))
    end
    return { 'granted', e.token, shortest(all) }
  end
  local queued = e
  for _, s in ipairs(all) do
    local own = entry(s, key)
    if own and own.token > 0 then return { 'conflict', s.name } end
    queued = queued and own
  end
  if not queued then
    forgo(key, all) -- removed from a queue because its process was considered dead: queue again
    e = nil
  end
  local free = true
  for _, s in ipairs(all) do
    if weight > s.limit and s.limit > 0 then
      forgo(key, all)
      return { 'too_heavy', s.name }
    end
    if wait then enlist(s) end
    local before = head(s)
    free = free and (not before or before == key) and fits(s, weight)
  end
  if free then
    for _, s in ipairs(all) do
      if e then quit(s, key) end
    end
    local token, lease = grant(all, key, {
      weight = weight, since = e and e.since, process = process, holder = holder, attempt = attempt, before = e and (e.process ~= process and e.process or e.before),
    })
    return { 'granted', token, lease }
  end
  local fresh = 0
  if wait and not e then
    fresh = 1
    local place = number(all)
    for _, s in ipairs(all) do
      join(s, key, {
        weight = weight, since = now, token = 0, process = process, holder = holder, also = others(all, s), multi = #all > 1, called = 0,
        attempt = attempt,
      }, place)
    end
  end
  local position, last, soonest = 0, 0, first.lease
  for _, s in ipairs(all) do
    local place = s.size + (e and 0 or 1 - fresh)
    local own = wait and e and entry(s, key)
    if own then
      if own.attempt ~= attempt or own.process ~= process then own.attempt = 0 end
      if own.process ~= process then own.before, own.process = own.process, process end
      write(s, key, own)
      place = math.max(1, (call('ZRANK', s.keys.queue, key) or s.size - 1) + 1 - s.left)
    end
    if #all > 1 and (own or fresh == 1) then
      -- If it is first here and there is room, only a change in another semaphore can admit it.
      entry(s, key).called = head(s) == key and fits(s, weight) and -1 or 0
    end
    position, last = math.max(position, place), math.max(last, expected(s, place))
    soonest = math.min(soonest, next_change(s))
  end
  return { (e or fresh == 1) and 'waiting' or 'full', position, last, soonest, fresh }
end
