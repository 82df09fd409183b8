SELECT order_id, item, buyer_hash, key_hash, quantity, status,
       CASE WHEN status IN ('confirmed', 'paid') THEN units ELSE {no units} END, CAST(NULL AS bytea)
FROM orders
WHERE sale = $1 AND (key_hash IS NOT NULL OR status IN ('confirmed', 'paid'))
UNION ALL
SELECT order_id, item, '', NULL, 0, 'accepted', {no units}, payload FROM dead_letters d
WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id)
