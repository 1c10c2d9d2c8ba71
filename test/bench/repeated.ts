/** The bench several times over, one run after the other: what each printed, and each goal with the figures of all. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fixed, median } from './print.ts'

const RUN = join(import.meta.dir, 'run.ts')
const OWN = ['--times', '--out']
/** `met   0.61 (0.58 to 0.66) of the rate of …; goal: at least 0.6`, as `verdict` prints it in the list at the end. */
const VERDICT = /^ {2}(met|SHORT) +(-?[\d.]+)(?: \([^)]*\))? (.*goal: .*)$/

export async function repeated(
  args: readonly string[],
  { times, out }: { readonly times: number; readonly out: string | undefined },
): Promise<number> {
  if (!Number.isInteger(times) || times < 1) throw new RangeError('--times is a whole number from 1')
  const others = args.filter((arg, index) => !OWN.includes(arg) && !OWN.includes(args[index - 1] ?? ''))
  const printed: string[] = []
  const say = (text: string) => {
    printed.push(text)
    process.stdout.write(text)
    if (out) writeFileSync(out, printed.join(''))
  }
  const runs: string[] = []
  for (let run = 1; run <= times; run++) {
    say(`${run === 1 ? '' : '\n'}run ${run} of ${times}\n`)
    const child = Bun.spawn([process.execPath, RUN, ...others], { stdout: 'pipe', stderr: 'inherit' })
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of child.stdout) {
      const more = decoder.decode(bytes, { stream: true })
      text += more
      say(more)
    }
    if ((await child.exited) !== 0) return 1
    runs.push(text)
  }
  say(`\neach goal in ${times} runs: median (least to most)\n${summary(runs).join('\n')}\n`)
  return 0
}

/** Goals that are not met in every run come first. */
export function summary(runs: readonly string[]): readonly string[] {
  const found = new Map<string, { readonly isMet: boolean; readonly value: number }[]>()
  for (const run of runs) {
    const list = run.slice(run.lastIndexOf(' goals:'))
    for (const line of list.split('\n')) {
      const [, word, value, text = ''] = VERDICT.exec(line) ?? []
      const goal = text.replace(/; the bare proxy: [\d.]+/, '')
      if (word) found.set(goal, [...(found.get(goal) ?? []), { isMet: word === 'met', value: Number(value) }])
    }
  }
  const lines = [...found].map(([goal, seen]) => {
    const values = seen.map(({ value }) => value)
    const spread = `${fixed(Math.min(...values), 2)} to ${fixed(Math.max(...values), 2)}`
    const met = seen.filter(({ isMet }) => isMet).length
    const [all, none] = [met === seen.length, met === 0]
    const word = all ? 'met  ' : { true: 'SHORT', false: 'mixed' }[`${none}`]
    const some = seen.length < runs.length ? `, in ${seen.length} of ${runs.length} runs` : ''
    return `  ${word} ${fixed(median(values), 2)} (${spread}${some}) ${goal}`
  })
  return lines.toSorted((one, other) => Number(one.startsWith('  met')) - Number(other.startsWith('  met')))
}
