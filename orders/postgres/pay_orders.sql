WITH locked AS (
	SELECT order_id, status, pay_before FROM orders WHERE order_id = ANY($1) FOR UPDATE SKIP LOCKED
), recorded AS (
	INSERT INTO payments (reference, order_id, action)
	SELECT reference, order_id, 'none' FROM unnest($1::uuid[], $2::text[]) AS a (order_id, reference) JOIN locked USING (order_id)
	WHERE status = 'confirmed' AND pay_before IS NOT NULL
	ORDER BY reference
	ON CONFLICT DO NOTHING
	RETURNING reference, order_id
), paid AS (
	UPDATE orders SET status = 'paid' WHERE order_id = ANY(ARRAY(SELECT order_id FROM recorded))
), recorded_events AS (
	INSERT INTO order_events (order_id, status, action, reference) SELECT order_id, 'paid', 'none', reference FROM recorded
)
SELECT order_id FROM recorded
