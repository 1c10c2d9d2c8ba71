/** How measurements are put together and printed. */

export function table(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of [head, ...rows]) {
    const cells = row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
    )
    console.log(`  ${cells.join('  ')}`)
  }
}

const verdicts: string[] = []

/** Says whether a goal is met, here and in the list at the end. */
export function verdict(isMet: boolean, text: string): void {
  const line = `${isMet ? 'met  ' : 'SHORT'} ${text}`
  verdicts.push(line)
  console.log(`  ${line}`)
}

/** Every verdict so far. */
export const judged = (): readonly string[] => verdicts

/** Judges the median of the rounds' ratios, and prints their spread. */
export function goal(of: string, ratios: readonly number[], wanted: number): void {
  const got = median(ratios)
  const spread = `${fixed(Math.min(...ratios), 2)} to ${fixed(Math.max(...ratios), 2)}`
  verdict(got >= wanted, `${fixed(got, 2)} (${spread}) ${of}; goal: at least ${wanted}`)
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? (sorted[middle] ?? NaN) : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2
}

export const total = (bad: Readonly<Record<string, number>>): number =>
  Object.values(bad).reduce((sum, each) => sum + each, 0)
export const fixed = (value: number, decimals: number): string => value.toFixed(decimals)
export const count = (value: number): string => Math.round(value).toLocaleString('en')
