-- Takes one unit for a buyer.
-- KEYS 1 units left, 2 set of buyers  ARGV 1 buyer
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then
  return 'bought'
end
if redis.call('DECR', KEYS[1]) < 0 then
  redis.call('INCR', KEYS[1])
  return 'sold_out'
end
redis.call('SADD', KEYS[2], ARGV[1])
return 'reserved'
