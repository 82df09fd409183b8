// Defines <altcha-widget> with its worker in a file of its own, so that a page needs neither 'unsafe-inline' nor blob: in its policy.
import './altcha.min.js';

const worker = new URL('./sha.js', import.meta.url);
$altcha.algorithms.set('SHA-256', () => new Worker(worker));
