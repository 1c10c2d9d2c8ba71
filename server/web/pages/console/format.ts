/** Numbers and times as people read them. */

const counts = new Intl.NumberFormat('en')

export const count = (value: number): string => counts.format(value)

/** `1 call`, `2 calls`. */
export const counted = (value: number, one: string): string => `${count(value)} ${one}${value === 1 ? '' : 's'}`

/** Dollars with as many digits as tell something: whole cents from a dollar on. */
export function usdc(amount: string | number): string {
  const value = Number(amount)
  if (value === 0) return '0'
  if (value >= 1_000) return counts.format(Math.round(value))
  return value >= 1 ? value.toFixed(2) : String(Number(value.toPrecision(3)))
}

export function duration(ms: number | null): string {
  if (ms === null) return '–'
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${Number((ms / 1_000).toPrecision(3))} s`
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} days`
}

const times = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })

export const time = (iso: string): string => times.format(new Date(iso))
export const clockTime = (iso: string): string => new Date(iso).toLocaleTimeString('en-GB')

/** The ends of a long name. */
export const short = (name: string): string => (name.length > 16 ? `${name.slice(0, 8)}…${name.slice(-6)}` : name)
