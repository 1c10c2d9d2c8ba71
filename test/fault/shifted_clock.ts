/** Preloaded into a replica whose clock is wrong: shifts `Date` by FAULT_CLOCK_AHEAD_MS. Timers run as before. */
const aheadMs = Number(process.env.FAULT_CLOCK_AHEAD_MS ?? 0)
const { now } = Date

Date.now = () => now() + aheadMs
globalThis.Date = new Proxy(Date, {
  construct: (real, given, target) =>
    Reflect.construct(real, given.length === 0 ? [now() + aheadMs] : given, target) as object,
  apply: (real) => new real(now() + aheadMs).toString(),
})
