-- One script does everything to the semaphores of one hash tag: the files of this folder are joined, this one first and run.lua last. It
-- carries out operations that came together, in their order, and after each it hands what became free to those who wait.
--
-- KEYS     six for each semaphore, as keys.go lists them
-- ARGV[1]  the process that asks
-- ARGV[2]  what a process' channel begins with
-- ARGV[3]  PUBLISH, or SPUBLISH on a cluster
-- ARGV[4]  how many semaphores; then their names, and the operations as run.lua says
-- Times are µs of Redis' clock. A token is a number that only grows, and so is a place in a queue.
--
-- Replies {replies, granted}: a reply for each operation, and what else was granted to the process that asks: key, token, lease each.
-- The first word of a reply is granted, waiting, full, renewed, lost, released, defined, status, unknown, too_heavy or conflict.
--
-- Must be atomic: whether there is room, who is first and what the next token is depends on what others do at that moment.

local call, text = redis.call, function(n) return string.format('%.0f', n) end
local process, prefix, verb = ARGV[1], ARGV[2], ARGV[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local CLAIM = 2000000 -- for so long is a permit kept for a waiter that was told of it, and is a process believed alive that says nothing
local KEEP = 60000    -- ms by which the keys outlive the longest lease

-- A Redis that has been restarted, or a replica that took its place, may have forgotten permits. Embedded servers have no run id.
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or 'none'

local semaphores, granted = {}, {}

-- An entry is what is known of a permit, or of one who waits for it, by its key.
local function entry(s, key)
  local packed = call('HGET', s.entries, key)
  return packed and cmsgpack.unpack(packed)
end

local function write(s, key, e) call('HSET', s.entries, key, cmsgpack.pack(e)) end

local function tell(to, word) call(verb, prefix .. to, word) end

-- drop takes key from the holders.
local function drop(s, key, e)
  call('ZREM', s.holders, key)
  call('HDEL', s.entries, key)
  if e.weight > 1 then call('HDEL', s.weights, key) end
  s.used = s.used - e.weight
end

-- leave takes key from the queue.
local function leave(s, key)
  call('ZREM', s.queue, key)
  call('HDEL', s.entries, key)
end

local function count(s, what, n) s.counts[what] = (s.counts[what] or 0) + (n or 1) end

-- expire drops those whose lease has ended. One who was handed a permit and did not come for it is dead, with all that wait beside it.
local function expire(s)
  for _, key in ipairs(call('ZRANGEBYSCORE', s.holders, '-inf', text(now), 'LIMIT', 0, 1000)) do
    local e = entry(s, key) or { weight = 1 }
    if e.claimed then
      call('ZREM', s.processes, e.process)
      count(s, 'abandoned')
    else
      count(s, 'lost')
    end
    drop(s, key, e)
  end
end

local function open(i)
  local k = (i - 1) * 6
  local s = {
    name = ARGV[4 + i], counts = {},
    meta = KEYS[k + 1], holders = KEYS[k + 2], entries = KEYS[k + 3], weights = KEYS[k + 4], queue = KEYS[k + 5], processes = KEYS[k + 6],
  }
  semaphores[i] = s
  local m = call('HMGET', s.meta, 'limit', 'lease', 'longest', 'version', 'last', 'run', 'broke', 'quiet', 'hold')
  s.limit, s.lease, s.longest, s.version = tonumber(m[1]), tonumber(m[2]), tonumber(m[3] or 0), tonumber(m[4] or 0)
  s.last, s.run, s.broke, s.quiet, s.hold = tonumber(m[5] or 0), m[6], tonumber(m[7] or 0), tonumber(m[8] or 0), tonumber(m[9] or 0)
  if s.run and s.run ~= run then
    s.run, s.broke, s.quiet = run, now, now + s.longest
  end
  -- The truth is who stands among the holders. What they weigh is counted anew each time, so nothing can drift from it.
  s.used = call('ZCARD', s.holders)
  if s.used > 0 then
    for _, weight in ipairs(call('HVALS', s.weights)) do s.used = s.used + weight - 1 end
  end
  expire(s)
  call('ZREMRANGEBYSCORE', s.processes, '-inf', text(now - CLAIM))
  call('ZREMRANGEBYSCORE', s.processes, text(now + CLAIM), '+inf') -- the clock has stepped back
  call('ZADD', s.processes, text(now), process)
  return s
end

-- close writes what has changed.
local function close(s)
  if s.run then
    call('HSET', s.meta, 'last', text(s.last), 'run', s.run, 'broke', text(s.broke), 'quiet', text(s.quiet), 'hold', text(s.hold))
    for what, n in pairs(s.counts) do call('HINCRBY', s.meta, what, text(n)) end
  end
  local ttl = text(math.ceil(s.longest / 1000) + KEEP)
  for _, key in ipairs({ s.holders, s.entries, s.weights, s.queue, s.processes }) do call('PEXPIRE', key, ttl) end
  if s.run and not s.limit then call('PEXPIRE', s.meta, ttl) end
end
