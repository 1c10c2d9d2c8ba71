/** A straight line through measurements: how much more there is an hour. */

export type Point = { readonly hours: number; readonly value: number }
export type Slope = {
  readonly perHour: number
  /** Standard error of `perHour`; infinite with fewer than three points. */
  readonly error: number
}

/** Least squares. Zero, with an infinite error, where there are fewer than two moments. */
export function slopeOf(points: readonly Point[]): Slope {
  const mean = (of: (point: Point) => number) => points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [hours, value] = [mean((point) => point.hours), mean((point) => point.value)]
  const spread = points.reduce((sum, point) => sum + (point.hours - hours) ** 2, 0)
  if (points.length < 2 || spread === 0) return { perHour: 0, error: Number.POSITIVE_INFINITY }
  const perHour = points.reduce((sum, point) => sum + (point.hours - hours) * (point.value - value), 0) / spread
  const rest = points.reduce((sum, point) => sum + (point.value - value - perHour * (point.hours - hours)) ** 2, 0)
  const error = points.length < 3 ? Number.POSITIVE_INFINITY : Math.sqrt(rest / (points.length - 2) / spread)
  return { perHour, error }
}
