-- One script executes all operations on the semaphores of one hash tag: the files of this folder are joined, this one after try.lua and
-- run.lua last. It executes a batch of operations in order, and hands freed permits to waiters after each. Changes are kept in Lua and written
-- once at the end, so that a batch costs little more than a single operation.
--
-- KEYS     six for each semaphore, as listed in keys.go
-- ARGV[1]  the calling process
-- ARGV[2]  prefix of the channel of a process
-- ARGV[3]  PUBLISH, or SPUBLISH on a cluster
-- ARGV[4]  number of semaphores; then their names, and the operations as in run.lua
-- Times are µs of Redis' clock. Tokens and places in a queue are numbers that only increase.
--
-- Replies {replies, granted}: a reply for each operation, and the other grants to waiters of the calling process whose attempt is known:
-- key, token, lease, semaphore and attempt each. Grants to other waiters are announced. The first word of a reply is granted, waiting, full, renewed, lost, released, defined, status, unknown, too_heavy or
-- conflict.
--
-- Must be atomic: whether there is room, which waiter is first and what the next token is depend on concurrent operations.

local call = redis.call
local process, prefix, verb = ARGV[1], ARGV[2], ARGV[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local CLAIM_TIME = 2000000   -- how long a permit is reserved for a waiter that was notified
local SILENT_AFTER = 2000000 -- how long a process without messages counts as alive
local KEEP = 60000           -- ms by which the keys outlive the longest lease
local PAGE = 32              -- entries of a queue read at a time
local MOST = 500             -- waiters served in one script: a few ms of Redis' time

-- A restarted Redis, or a replica that took over, may have lost permits. The embedded server has no run id.
local info = redis.pcall('INFO', 'server')
if type(info) == 'table' and not string.find(info.err, 'is not supported', 1, true) then
  return redis.error_reply('NOPERM semaphores need the command INFO, so let the user of Redis have +info: ' .. info.err)
end
if redis.acl_check_cmd and not redis.acl_check_cmd(verb, prefix .. process) then
  return redis.error_reply('NOPERM semaphores need the command ' .. verb .. ', so let the user of Redis have it, and the channel ' .. prefix .. '*')
end
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or 'none'

local FIELDS = { 'limit', 'lease', 'longest', 'longest_until', 'version', 'last', 'broke', 'kept', 'quiet', 'hold',
  'granted', 'waited', 'waited_us', 'timed_out', 'lost', 'abandoned' }

local semaphores, granted, served = {}, {}, 0

-- text formats numbers inside texts, which Lua would round. Arguments and replies keep full precision.
local function text(n) return string.format('%.0f', n) end

-- ttl returns the time to live of the keys, in ms.
local function ttl(s) return math.ceil(s.longest / 1000) + KEEP end

local function tell(to, word) call(verb, prefix .. to, word) end

-- Format of an entry: the numeric fields, the last of which is called for a waiter for several semaphores and otherwise attempt, the
-- process, another process that has sent the same request, the other semaphores as in a permit's id, and the holder. Attempt is the only one
-- of its process that has asked for the place, or has got the permit; 0 if that is not known.
local FORMAT, PATTERN = '%d %.0f %.0f %d %d %.0f %s %s %s %s', '^(%d+) (%d+) (%d+) (%d) (%d) (%-?%d+) (%S+) (%S*) (%S*) (.*)$'

local function pack(e)
  return string.format(FORMAT, e.weight, e.since, e.token, e.unclaimed and 1 or 0, e.multi and 1 or 0,
    e.token == 0 and e.multi and e.called or e.attempt or 0, e.process, e.before or '', e.also or '', e.holder)
end

local function read(packed)
  local weight, since, token, unclaimed, multi, number, of, before, also, holder = string.match(packed, PATTERN)
  return weight and {
    weight = tonumber(weight), since = tonumber(since), token = tonumber(token), unclaimed = unclaimed == '1', multi = multi == '1',
    [token == '0' and multi == '1' and 'called' or 'attempt'] = tonumber(number), process = of, before = before ~= '' and before, also = also,
    holder = holder,
  }
end

-- An entry is the data of a permit, or of a waiter (token 0), by its key. One that cannot be read counts as missing.
local function entry(s, key)
  local e = s.entries[key]
  if e == nil then
    local packed = call('HGET', s.keys.entries, key)
    e = packed and read(packed) or false
    s.entries[key] = e
  end
  return e or nil
end

local function write(s, key, e) s.entries[key], s.dirty[key] = e, true end

-- hold makes key a holder until ends. The caller adds its weight to the total in use.
local function hold(s, key, e, ends)
  s.ends[key] = ends
  write(s, key, e)
  if e.weight > 1 then s.weighs[key] = e.weight end
end

-- drop removes key from the holders.
local function drop(s, key, e)
  s.ends[key] = false
  s.used = s.used - e.weight
  write(s, key, false)
  if e.weight > 1 then s.weighs[key] = false end
end

-- quit removes key from the queue. The caller handles its entry.
local function quit(s, key)
  s.size, s.left = s.size - 1, s.left + 1
  s.gone[key], s.places[key] = true, false
end

local function leave(s, key)
  quit(s, key)
  write(s, key, false)
end

-- head returns the first waiter in the queue: stored ones come before those added in this script.
local function head(s)
  while true do
    local key = s.line[s.front]
    if key and not s.gone[key] then return key end
    if key then
      s.front = s.front + 1
    elseif s.read < s.stored then
      local page = call('ZRANGE', s.keys.queue, s.read, s.read + PAGE - 1)
      s.line, s.front, s.read = page, 1, s.read + #page
      if #page == 0 then s.read = s.stored end
    elseif #s.joined > 0 then
      s.line, s.front, s.joined = s.joined, 1, {}
    else
      return nil
    end
  end
end

local function alive(s, e)
  if e.process == process then return true end
  local recent = s.alive[e.process]
  if recent == nil then
    local at = call('ZSCORE', s.keys.processes, e.process)
    recent = at and math.abs(now - at) < SILENT_AFTER or false
    s.alive[e.process] = recent
  end
  return recent
end

-- expire removes holders whose lease has ended, or who did not claim their permit in time.
local function expire(s)
  for _, key in ipairs(call('ZRANGEBYSCORE', s.keys.holders, '-inf', now, 'LIMIT', 0, 1000)) do
    local e = entry(s, key) or { weight = 1 }
    if e.unclaimed then
      s.abandoned = s.abandoned + 1
    else
      s.lost = s.lost + 1
    end
    drop(s, key, e)
  end
end

-- cut ends leases and pauses within the longest lease: if they end later, the clock was set back.
local function cut(s)
  local latest = now + math.max(s.longest, CLAIM_TIME)
  local late = s.used > 0 and call('ZRANGEBYSCORE', s.keys.holders, '(' .. text(latest), '+inf', 'LIMIT', 0, 1000) or {}
  for _, key in ipairs(late) do s.ends[key] = latest end
  if s.broke > now then s.quiet = math.min(s.quiet, now + s.longest) end
  s.longest_until = math.min(s.longest_until, now + s.longest)
end

-- begin resets the state kept in Lua, for a queue of this length.
local function begin(s, stored)
  s.entries, s.dirty, s.ends, s.places, s.gone, s.joined, s.line, s.weighs = {}, {}, {}, {}, {}, {}, {}, {}
  s.front, s.read, s.left = 1, 0, 0
  s.stored, s.size = stored, stored
end

-- probe reads the fields of a semaphore into s. It returns how many waiters, holders and weights are stored, or nothing if a key is of
-- another type, or a field is missing or no number.
local function probe(s)
  local m = try('HMGET', s.keys.meta, 'run', unpack(FIELDS))
  local stored, used, weights = try('ZCARD', s.keys.queue), try('ZCARD', s.keys.holders), try('HLEN', s.keys.weights)
  if not (m and stored and used and weights and try('HLEN', s.keys.entries) and try('ZCARD', s.keys.processes)) then return end
  for j, field in ipairs(FIELDS) do
    s.was[field] = tonumber(m[j + 1])
    if m[j + 1] and not s.was[field] then return end
  end
  if m[2] and not (m[1] and s.was.lease) then return end
  s.run = m[1]
  return stored, used, weights
end

local function open(i)
  local k = (i - 1) * 6
  local s = {
    name = ARGV[4 + i], alive = {}, was = {}, keys = {
      meta = KEYS[k + 1], holders = KEYS[k + 2], entries = KEYS[k + 3], weights = KEYS[k + 4], queue = KEYS[k + 5], processes = KEYS[k + 6],
    },
  }
  semaphores[i] = s
  local stored, used, weights = probe(s)
  if not stored then -- it is damaged: the same as if Redis had lost all of it
    for _, key in pairs(s.keys) do call('DEL', key) end
    s.was, s.run, stored, used, weights = {}, false, 0, 0, 0
  end
  for _, field in ipairs(FIELDS) do s[field] = s.was[field] or 0 end
  if now >= s.longest_until then s.longest = s.lease end
  s.limit = s.was.limit
  if s.run and s.run ~= run then
    s.run, s.broke, s.kept, s.quiet = run, now, 1, now + s.longest
  end
  begin(s, stored)
  -- The holders are authoritative. Their weights are summed each time, so the total cannot drift.
  s.used = used
  if weights > 0 and used > 0 then
    for _, weight in ipairs(call('HVALS', s.keys.weights)) do s.used = s.used + (tonumber(weight) or 1) - 1 end
  end
  if s.run then cut(s) end
  if used > 0 then expire(s) end
  return s
end

-- enlist records that the process is alive and waiting.
local function enlist(s) s.alive[process] = true end

-- many calls a command with all these arguments, in chunks that fit Lua's stack, and sets the key's TTL to ms, if given.
local function many(command, key, args, ms)
  for i = 1, #args, 1000 do call(command, key, unpack(args, i, math.min(i + 999, #args))) end
  if ms and #args > 0 then call('PEXPIRE', key, ms) end
end

local function split(changes, add, remove)
  for key, value in pairs(changes) do
    if value then
      add[#add + 1], add[#add + 2] = value, key
    else
      remove[#remove + 1] = key
    end
  end
  return add, remove
end

-- flush writes the changes to Redis.
local function flush(s)
  local add, remove = split(s.ends, {}, {})
  many('ZREM', s.keys.holders, remove)
  many('ZADD', s.keys.holders, add, ttl(s))
  add, remove = split(s.places, {}, {})
  many('ZREM', s.keys.queue, remove)
  many('ZADD', s.keys.queue, add, ttl(s))
  local set, delete = {}, {}
  for key in pairs(s.dirty) do
    local e = s.entries[key]
    if e then
      set[#set + 1], set[#set + 2] = key, pack(e)
    else
      delete[#delete + 1] = key
    end
  end
  many('HDEL', s.keys.entries, delete)
  many('HSET', s.keys.entries, set, ttl(s))
  local weights, without = {}, {}
  for key, weight in pairs(s.weighs) do
    if weight then
      weights[#weights + 1], weights[#weights + 2] = key, weight
    else
      without[#without + 1] = key
    end
  end
  many('HDEL', s.keys.weights, without)
  many('HSET', s.keys.weights, weights, ttl(s))
  if s.alive[process] then -- it has waiters
    if call('ZADD', s.keys.processes, now, process) == 1 then
      call('ZREMRANGEBYSCORE', s.keys.processes, '-inf', now - SILENT_AFTER)
      call('ZREMRANGEBYSCORE', s.keys.processes, now + SILENT_AFTER, '+inf') -- the clock was set back
    end
    for _, key in ipairs({ 'entries', 'queue', 'processes' }) do call('PEXPIRE', s.keys[key], ttl(s)) end
  end
  if s.run then
    local values = {}
    for _, field in ipairs(FIELDS) do
      if s[field] and s[field] ~= s.was[field] then values[#values + 1], values[#values + 2] = field, s[field] end
    end
    if #values > 0 then call('HSET', s.keys.meta, 'run', s.run, unpack(values)) end
    if s.was.limit and not s.limit then call('HDEL', s.keys.meta, 'limit') end
    if not s.limit then
      call('PEXPIRE', s.keys.meta, ttl(s))
    elseif s.limit ~= s.was.limit then
      call('PERSIST', s.keys.meta)
    end
    for _, field in ipairs(FIELDS) do s.was[field] = s[field] end
  end
end

-- join appends key to the queue.
local function join(s, key, e, place)
  if s.gone[key] then -- it has just left another place
    flush(s)
    begin(s, call('ZCARD', s.keys.queue))
  end
  s.joined[#s.joined + 1] = key
  s.places[key] = place
  s.size = s.size + 1
  write(s, key, e)
end
