-- Reads the state of an item.
--
-- KEYS  prelude.lua
-- ARGV  1 number of holders that the caller has, 2 maximum number of holders to read, 3 counts that the caller has seen
-- Reply {now in ms, counts, free, 1 while recovering, switch, number of holders, {further holders}}, or {now in ms} when Redis
--       does not have the item whole, or has it in an earlier state
--
-- One step, so that the list of holders is complete if the item cannot be ordered.
local now = now_ms()
local it = read(ARGV[3])
if not it then
  return {now}
end
local from = tonumber(ARGV[1])
return {
  now,
  counts(it),
  it.stock - it.next + it.back,
  it.recovering and 1 or 0,
  it.switch,
  redis.call('LLEN', holders),
  redis.call('LRANGE', holders, from, from + ARGV[2] - 1),
}
