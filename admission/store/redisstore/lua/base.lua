-- Two stages: a fixed window of free units, followed by a sliding log of further ones. The stamp of a unit of the first stage is
-- negative.

local base = {}

-- Returns a part of t as a separate tally.
local function stage(t, key, limit, window)
  return {key = key, cost = t.cost, limit = limit, window = window}
end

local function read(algorithm, stage, cost, now)
  stage.cost = cost
  stage.word, stage.remaining, stage.retry_after, stage.reset_after = 'admitted', 0, 0, 0
  algorithm.read(stage, now)
end

function base.arguments(t, at, keys)
  local limit, window
  limit, window, at = unpack('>I4I8', arguments, at)
  t.first, t.second = stage(t, KEYS[keys + 1], limit, window), stage(t, t.key, t.limit, t.window)
  return fixed_window.arguments(t.first, at, keys + 1)
end

function base.read(t, now)
  local first, second = t.first, t.second
  read(fixed_window, first, t.cost, now)
  read(sliding_log, second, t.cost, now)
  t.remaining = first.remaining + second.remaining
  t.reset_after = max(first.reset_after, second.reset_after)
  if first.word == 'admitted' or second.word == 'admitted' then return end
  if second.word == 'cost_above_limit' and first.word == 'cost_above_limit' then
    t.word = 'cost_above_limit'
    return
  end
  t.word = 'rate_limited'
  if second.word == 'cost_above_limit' then
    t.retry_after = first.retry_after
  elseif first.word == 'cost_above_limit' then
    t.retry_after = second.retry_after
  else
    t.retry_after = min(first.retry_after, second.retry_after)
  end
end

function base.charge(t)
  local first, second = t.first, t.second
  if first.word == 'admitted' then
    fixed_window.charge(first)
    t.stamp = -first.stamp
  else
    sliding_log.charge(second)
    t.stamp = second.stamp
  end
  t.remaining = first.remaining + second.remaining
  t.reset_after = max(first.reset_after, second.reset_after)
end

function base.reject(t)
  sliding_log.reject(t.second)
end

function base.refund(t, stamp)
  t.first.cost, t.second.cost = t.cost, t.cost
  if stamp < 0 then
    fixed_window.refund(t.first, -stamp)
  else
    sliding_log.refund(t.second, stamp)
  end
end

algorithms.base = base
