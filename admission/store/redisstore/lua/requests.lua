-- The recorded answers to requests with an id: a HASH for each subject, with a field for each id and window. An id is known for a minute,
-- and charged once in that time.
--
-- Memory is bounded without sweeping: a hash that is full, or a minute old, replaces the previous one. TTL two minutes and a second; the
-- remaining TTL also gives the hash's age.

local known_for = 60000000 -- µs
local most, ttl = 128, 121000

requests = {}

function requests.arguments(t, keys)
  t.young, t.old = KEYS[keys + 1], KEYS[keys + 2]
  t.field = request .. string.sub(t.key, -8)
  return keys + 2
end

local function record(t, charged, cost)
  return pack('>I8BI4sI8I8I8i8', t.at, charged, cost, t.word, t.remaining, t.retry_after, t.reset_after, t.stamp)
end

-- An answer is stored with what was counted: 1 a charge, 2 a rejection, 3 a charge that was refunded, 0 nothing.

-- Sets t to the recorded answer to its request, t.recorded to the key of that record, and t.charged to whether it is still charged. Does
-- nothing without a record.
function requests.find(t, now)
  for _, key in ipairs({t.young, t.old}) do
    local recorded = try('HGET', key, t.field)
    local readable, at, charged, cost, word, remaining, retry_after, reset_after, stamp
    if recorded then
      readable, at, charged, cost, word, remaining, retry_after, reset_after, stamp = pcall(unpack, '>I8BI4sI8I8I8i8', recorded)
    end
    if readable then
      if now - at < known_for then
        t.at, t.word, t.remaining, t.retry_after, t.reset_after, t.stamp = at, word, remaining, retry_after, reset_after, stamp
        if at > now + step then -- the clock was set back
          t.at = now
          pcall(call, 'HSET', key, t.field, record(t, charged, cost))
          pcall(call, 'PEXPIRE', key, ttl)
        end
        t.recorded, t.charged, t.counted, t.recorded_cost = key, charged == 1, charged > 0, cost
      end
      return
    end
  end
end

-- Repeats the recorded answer for t. If it was neither counted nor refused, t is decided again: a past check that found room does not
-- guarantee room now.
function requests.recall(t, now)
  requests.find(t, now)
  if t.recorded and t.word == 'admitted' and not t.counted then
    t.recorded, t.stamp, t.at = nil, 0, now
  end
end

-- Drops all answers for the window of t.
function requests.forget(t)
  local window = string.sub(t.key, -8)
  for _, key in ipairs({t.young, t.old}) do
    local fields = try('HKEYS', key) -- at most a few hundred
    if not fields then call('DEL', key) end
    for _, field in ipairs(fields or {}) do
      if string.sub(field, -8) == window then call('HDEL', key, field) end
    end
  end
end

-- Records the answer t.
function requests.put(t)
  local left = call('PTTL', t.young)
  local size = try('HLEN', t.young)
  if not size then
    call('DEL', t.young) -- it is of another type
    left = -2
  elseif left >= 0 and (left <= ttl - known_for / 1000 or size >= most) then
    call('RENAME', t.young, t.old)
    left = -2
  end
  call('HSET', t.young, t.field, record(t, t.stamp ~= 0 and 1 or t.rejected and 2 or 0, t.cost))
  if left < 0 or left > ttl then call('PEXPIRE', t.young, ttl) end -- above it if the clock was set back
end

-- Records that the answer which find returned is no longer charged. It is still repeated: a resend is late, and a new attempt needs a new id.
function requests.refunded(t)
  call('HSET', t.recorded, t.field, record(t, 3, t.recorded_cost))
end
