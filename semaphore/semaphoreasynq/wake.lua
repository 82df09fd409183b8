-- Makes the first of the given tasks that Asynq holds for a retry pending, ahead of all other pending tasks, because it arrived before
-- them.
--
-- KEYS[1]  ZSET asynq:{QUEUE}:retry, by due time, s
-- KEYS[2]  LIST asynq:{QUEUE}:pending, the next one last
-- KEYS[3…] HASH asynq:{QUEUE}:t:ID, one for each task
-- ARGV[1]  now, ns
-- ARGV[2…] their ids
--
-- Replies a word for each task until one was woken: woken · busy: pending or running · gone: completed, archived, or failed in another
-- process
--
-- A task that failed keeps its retry delay. The cause is read from the error, which is stored verbatim in Asynq's message.
--
-- Must be atomic: a task that completes concurrently would run again.
local put_back = 'semaphoreasynq: put back for '
local function waits(task)
  return string.find(redis.call('HGET', task, 'msg') or '', put_back, 1, true)
end

redis.call('LLEN', KEYS[2]) -- fails if it is of another type: a task must not leave the one without entering the other
local replies = {}
for i = 2, #ARGV do
  local task = KEYS[i + 1]
  local state = redis.call('HGET', task, 'state')
  if state == 'retry' and waits(task) and redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[i])
    redis.call('HSET', task, 'state', 'pending', 'pending_since', ARGV[1])
    replies[i - 1] = 'woken'
    return replies
  end
  replies[i - 1] = (state == 'pending' or state == 'active') and 'busy' or 'gone'
end
return replies
