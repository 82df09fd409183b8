WITH ended AS (
	UPDATE orders SET status = $1, key_hash = NULLIF(key_hash, '') WHERE order_id = ANY($2)
), freed AS (
	DELETE FROM order_units u USING unnest($10::text[], $11::text[], $12::integer[], $13::uuid[]) AS k (sale, item, unit, order_id)
	WHERE u.sale = k.sale AND u.item = k.item AND u.unit = k.unit AND u.order_id = k.order_id
), recorded_events AS (
	INSERT INTO order_events (order_id, status) SELECT unnest($2::uuid[]), $1
)
INSERT INTO order_returns (order_id, sale, item, epoch, buyer_hash, keyless, quantity, units)
SELECT order_id, sale, item, epoch, buyer_hash, keyless, quantity, units::integer[]
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::boolean[], $8::integer[], $9::text[])
     AS r (order_id, sale, item, epoch, buyer_hash, keyless, quantity, units)
