-- Finds an order that is not committed.
--
-- KEYS  item.lua
-- ARGV  1 order id
-- Reply {'pending', reservation}, {'settled'} when there is none, {'forgotten'} when Redis cannot know
--
-- One step: an item that is forgotten between two would make "none" a lie.
local record = redis.call('HGET', pending, ARGV[1])
if record then
  return {'pending', record}
end
local recovering = redis.call('HMGET', item, 'switch', 'recovering')
if not recovering[1] or recovering[2] then
  return {'forgotten'}
end
return {'settled'}
