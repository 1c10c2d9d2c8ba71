/** The README, as text and in pieces. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

export const readme = await readFile(join(import.meta.dirname, '../../README.md'), 'utf8')

/** The code blocks of one language under a heading, in order. */
export function blocks(heading: string, language: string): readonly string[] {
  const [, section = ''] = `\n${readme}`.split(`\n${heading}\n`)
  const end = section.search(/\n##? /)
  const text = end === -1 ? section : section.slice(0, end)
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code)
}
