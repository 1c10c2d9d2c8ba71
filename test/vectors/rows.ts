/** Tables of tests that are recorded as one JSON value a line: `test/vectors/<name>.jsonl`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The rows of a table. `words` replaces placeholders such as `$KEY` in them. */
export function rowsOf<Row>(name: string, words: Readonly<Record<string, string>> = {}): readonly Row[] {
  const text = readFileSync(join(import.meta.dirname, `${name}.jsonl`), 'utf8')
  const filled = Object.entries(words).reduce((all, [word, value]) => all.replaceAll(word, value), text)
  return filled
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row)
}
