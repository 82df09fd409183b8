-- renew KEY TOKEN WEIGHT HOLDER SEMAPHORES…: starts a new lease, by the current definitions. After Redis has lost its data, a permit
-- registers again while grants are paused, if there is room.
--
-- Replies renewed, lease · lost · unknown, name
local function renew(key, token, weight, holder, all)
  local known, lost = {}, false
  for i, s in ipairs(all) do
    if not s.run then return { 'unknown', s.name } end
    local e = entry(s, key)
    local forgotten = not e and token < s.broke and now < s.quiet and s.limit
    known[i] = e and e.token == token and e
    lost = lost or not known[i] and not (forgotten and s.used + weight <= s.limit)
  end
  local lease = shortest(all)
  for i, s in ipairs(all) do
    local e = known[i]
    if lost then
      if e then drop(s, key, e) end -- it holds all semaphores or none
    else
      if not e then
        e = { weight = weight, since = now, token = token, process = process, holder = holder, also = others(all, s) }
        s.used, s.last = s.used + weight, math.max(s.last, token)
      end
      e.unclaimed, e.attempt = false, 0
      hold(s, key, e, now + lease)
    end
  end
  return lost and { 'lost' } or { 'renewed', lease }
end

-- release KEY TOKEN SEMAPHORES…: gives a permit back. TOKEN 0 gives up a place in the queue, or a permit that was handed over and not yet
-- claimed. -1 gives up everything that the process has under this key, which is unique to the request. -N, from -2 on, is like 0, and also
-- gives up a permit that only attempt N of the process has got. If another process has sent the same request, it gets what is given up.
--
-- Replies released, 1 if there was something to release
local function release(key, token, all)
  local found = 0
  for _, s in ipairs(all) do
    local e = entry(s, key)
    if e and e.token == 0 and token <= 0 then
      found = 1
      if e.before == process then
        e.before = false
        write(s, key, e)
      elseif e.process == process and e.before then -- another process waits with the same request
        e.process, e.before, e.attempt = e.before, false, 0
        write(s, key, e)
      elseif e.process == process then
        leave(s, key)
        s.timed_out = s.timed_out + 1
      end
    elseif e and token <= 0 and e.process == process and (token == -1 or e.unclaimed or e.attempt == -token and token ~= 0) then
      found = 1
      if e.before then -- another process may wait with the same request
        e.process, e.before, e.unclaimed, e.attempt = e.before, false, true, 0
        hold(s, key, e, now + CLAIM_TIME)
        tell(e.process, 'come ' .. key .. ' ' .. s.name)
      else
        drop(s, key, e)
      end
    elseif e and e.token == token then
      drop(s, key, e)
      found = 1
      local held = math.max(0, now - e.since) -- the clock may have been set back
      s.hold = s.hold == 0 and held or s.hold * 0.9 + held * 0.1
      for _, holder in ipairs({ e.process, e.before }) do -- two if the request was sent by two processes
        if holder and holder ~= process then tell(holder, 'lost ' .. key .. ' ' .. text(e.token) .. ' ' .. s.name) end
      end
    end
  end
  return { 'released', found }
end
