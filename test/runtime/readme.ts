/** The README and the guides, as text and in pieces. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')

export const readme = await readFile(join(ROOT, 'README.md'), 'utf8')

/** A guide of server/docs, by its name. */
export async function guideText(name: string): Promise<string> {
  return await readFile(join(ROOT, `server/docs/${name}.md`), 'utf8')
}

/** The code blocks of one language under a heading of a page, in order. */
export function blocks(page: string, heading: string, language: string): readonly string[] {
  const [, section = ''] = `\n${page}`.split(`\n${heading}\n`)
  const end = section.search(/\n#{1,3} /)
  const text = end === -1 ? section : section.slice(0, end)
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code)
}
