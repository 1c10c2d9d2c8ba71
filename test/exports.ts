/** Which exports no other file uses, read from the text of the sources. */
import { resolve } from './graph.ts'

type Text = { readonly path: string; readonly text: string }

const EXPORTED = /^export (?:declare |async |abstract )*(?:function\*?|const|let|type|interface|class) (\w+)/gm
const LISTED = /^export (?:type )?\{([^}]*)\}/gm
const IMPORTED = /^ *(?:import|export) (?:type )?\{([^}]*)\} from '([^']+)'/gm
/** An import of a whole file uses the names that stand in the importer, or all of them if it lists them by `Object`. */
const WHOLE = /\* as (\w+) from '([^']+)'|\bimport\(\s*'([^']+)'/gm
const EVERYTHING = /^export (?:type )?\* from '([^']+)'/gm

/** `path name` for each export that no other file uses, but for those of doors, which `isDoor` names. */
export function unusedExports(files: readonly Text[], isDoor: (path: string) => boolean): string[] {
  const used = new Set<string>()
  const importers = new Map<string, string[]>()
  const usedWhole = new Set<string>()
  for (const { path, text } of files) {
    for (const [, names = '', from = ''] of text.matchAll(IMPORTED))
      for (const [name] of namesIn(names)) used.add(`${resolve(path, from)} ${name}`)
    for (const [, from = ''] of text.matchAll(EVERYTHING)) usedWhole.add(resolve(path, from))
    for (const [, namespace = '', named, dynamic = ''] of text.matchAll(WHOLE)) {
      const target = resolve(path, named ?? dynamic)
      importers.set(target, [...(importers.get(target) ?? []), text])
      if (new RegExp(`\\bObject\\.\\w+\\(${namespace}\\)`).test(text)) usedWhole.add(target)
    }
  }
  return files.flatMap(({ path, text }) => {
    if (isDoor(path) || usedWhole.has(path)) return []
    const isUsed = (name: string): boolean =>
      used.has(`${path} ${name}`) ||
      (importers.get(path) ?? []).some((importer) => new RegExp(`\\b${name}\\b`).test(importer))
    const listed = [...text.matchAll(LISTED)].flatMap(([, names = '']) => namesIn(names).map(([, name]) => name))
    return [...[...text.matchAll(EXPORTED)].map(([, name = '']) => name), ...listed]
      .filter((name) => !isUsed(name))
      .map((name) => `${path} ${name}`)
  })
}

/** `a, type b as c` gives `[a, a]` and `[b, c]`: each name where it comes from, and here. */
function namesIn(list: string): (readonly [name: string, here: string])[] {
  return list
    .split(',')
    .map((part) =>
      part
        .trim()
        .replace(/^type /, '')
        .split(' as '),
    )
    .flatMap(([name = '', here = name]) => (name === '' ? [] : [[name, here] as const]))
}
