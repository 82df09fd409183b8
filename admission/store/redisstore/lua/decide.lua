-- Decides calls, one after the other; each one is all-or-nothing by itself. Concurrent calls share a script, because the overhead of a
-- script takes Redis longer than a decision.
--
-- KEYS       for each tally its counter, then that of its base, of its strikes, and of its recorded answers (two), if it has them
-- ARGV       three for each call:
--   [1]      packed: the operation: charge, refuse (a charge that another slot has already refused), undo (a charge that another slot
--            refused afterwards), check, refund, reset, reject, add or erase; the time in µs, for tests, where 0 is Redis' own clock, the
--            only one that all processes share; and for each tally: its algorithm; 1 if shadow + 2 if it counts rejected requests + 4 if
--            it has strikes + 8 if it has recorded answers; cost; limit; window in µs; the stamp of a refund or an undo, else 0;
--            then the arguments of the algorithm; then for strikes the limit, the window in µs, and how many
--   [2]      the hash of the request's id, or empty
--   [3]      the channel on which the subjects of refunds and resets are published, or empty
--
-- Replies for each call packed values for each tally, in its state afterwards: admitted, rate_limited or cost_above_limit; remaining;
-- retry-after and reset-after in µs; the stamp of a charge, or of what a refund found, else 0; the time of the decision; and 1 if struck,
-- 2 if answered from a record. Or, without having done anything, clock and the time: calendar spans were sent that do not contain it. Or
-- an error, which concerns only that call. (Packed arguments and replies take half the time of separate values.)
--
-- Must be atomic: a concurrent count between reading the tallies and writing them would exceed the limit; and a request that one tally
-- refuses must not be counted in another.

local function read(t)
  if t.limit > 0 then
    t.algorithm.read(t, now)
  else
    t.word = 'cost_above_limit'
  end
end

local function read_again(t)
  t.word, t.remaining, t.retry_after, t.reset_after = 'admitted', 0, 0, 0
  read(t)
end

-- Counts t as rejected. The decision stays the same, even if there was room before.
local function reject(t)
  if t.limit == 0 then return end
  local word = t.word
  t.rejected = true
  t.algorithm.reject(t)
  read_again(t)
  if word ~= 'rate_limited' then t.word, t.retry_after = word, 0 end
end

-- The operation on each tally, by its name in store.Mode.
local change = {}

function change.charge(t, fits)
  if t.recorded then return end
  if fits then
    if t.word == 'admitted' then t.algorithm.charge(t) end
  else
    -- If Redis is out of memory, the refusal stands without being counted.
    if t.strikes and t.word ~= 'admitted' and t.flags % 2 == 0 then pcall(strikes.count, t, now) end
    if t.count_rejected then pcall(reject, t) end
    if t.field then pcall(requests.put, t) end
    return
  end
  if t.field then requests.put(t) end
end

change.refuse = change.charge

function change.undo(t)
  if t.stamp ~= 0 then t.algorithm.refund(t, t.stamp, now) end
  read_again(t)
  t.stamp = 0
  if t.count_rejected then reject(t) end
  if t.field then requests.put(t) end
end

function change.reject(t)
  read(t)
  if t.count_rejected and t.cost > 0 then reject(t) end
  if t.strikes and t.flags % 2 == 0 then strikes.count(t, now) end
  read_again(t)
end

function change.refund(t)
  local stamp = t.stamp
  if t.field then
    local cost = t.cost
    t.stamp = 0
    requests.find(t, now)
    stamp = t.stamp
    if t.charged then
      requests.refunded(t)
      t.cost = t.recorded_cost
      t.algorithm.refund(t, stamp, now)
      t.cost = cost
    end
    t.at, t.recorded = now, nil
  elseif stamp ~= 0 then
    t.algorithm.refund(t, stamp, now)
  end
  read_again(t)
  t.stamp = stamp
end

function change.reset(t)
  call('DEL', t.key)
  if t.first then call('DEL', t.first.key) end
  if t.strikes then call('DEL', t.strikes.key) end
  if t.field then requests.forget(t) end
  read_again(t)
end

-- Counts what has already happened, even beyond the limit.
function change.add(t)
  read(t)
  if t.limit == 0 then return end
  if t.word == 'admitted' then t.algorithm.charge(t) else t.algorithm.reject(t) end
  read_again(t)
end

function change.erase(t)
  read(t)
  if t.limit > 0 and t.algorithm.erase then t.algorithm.erase(t) end
  read_again(t)
end

local function tell(channel, tallies)
  local published = {}
  for _, t in ipairs(tallies) do
    local subject = string.match(t.key, '{(.-)}')
    if not published[subject] then
      published[subject] = true
      call('PUBLISH', channel, subject)
    end
  end
end

local keys = 0 -- number of keys read

-- Reads the tallies of a call and their keys, before executing anything: the keys of the next call follow them.
local function tallies_of(at)
  local tallies, n = {}, 0
  while at <= #arguments do
    local name, flags, cost, limit, window, stamp
    name, flags, cost, limit, window, stamp, at = unpack('>sBI4I4I8i8', arguments, at)
    keys = keys + 1
    local t = { -- 12 fields and, for most algorithms, four more: with a 17th Lua doubles the table
      algorithm = algorithms[name], key = KEYS[keys], flags = flags, cost = cost, limit = limit, window = window, stamp = stamp,
      word = 'admitted', remaining = 0, retry_after = 0, reset_after = 0, at = now,
    }
    local more = t.algorithm.arguments
    if more then at, keys = more(t, at, keys) end
    if flags > 1 then
      t.count_rejected = flags % 4 >= 2
      if flags % 8 >= 4 then at, keys = strikes.arguments(t, at, keys) end
      if flags >= 8 then keys = requests.arguments(t, keys) end
    end
    n = n + 1
    tallies[n] = t
  end
  return tallies
end

local function decide(mode, channel, tallies)
  local fits = mode == 'charge'
  if fits or mode == 'refuse' then
    for i = 1, #tallies do
      local t = tallies[i]
      if t.field then requests.recall(t, now) end
      if not t.recorded then read_again(t) end
      if t.word ~= 'admitted' and t.flags % 2 == 0 then fits = false end
    end
  elseif mode == 'check' then
    for _, t in ipairs(tallies) do read(t) end
  end
  -- Published before the first write, because the user may not have the channel.
  if channel ~= '' and (mode == 'refund' or mode == 'reset' or mode == 'erase') then tell(channel, tallies) end
  local act, reply = change[mode], {}
  for i = 1, #tallies do
    local t = tallies[i]
    if act then act(t, fits) end
    reply[i] = pack('>sI4I8I8i8I8B', t.word, t.remaining, t.retry_after, t.reset_after, t.stamp, t.at,
      t.struck and 1 or t.recorded and 2 or 0)
  end
  return table.concat(reply) -- appending to a text would copy it for each tally
end

local redis_time
local function time()
  if not redis_time then
    local t = call('TIME')
    redis_time = t[1] * 1000000 + t[2]
  end
  return redis_time
end

local replies = {}
for i = 1, #ARGV, 3 do
  local mode, at
  arguments, request, wrong_span = ARGV[i], ARGV[i + 1], false
  mode, now, at = unpack('>sI8', arguments)
  if now == 0 then now = time() end
  local tallies = tallies_of(at)
  local done, reply = true, nil
  if wrong_span then
    reply = pack('>sI8', 'clock', now)
  else
    done, reply = pcall(decide, mode, ARGV[i + 2], tallies)
  end
  if not done then
    reply = {err = type(reply) == 'table' and reply.err or tostring(reply)}
  end
  replies[#replies + 1] = reply
end
return replies
