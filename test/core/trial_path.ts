import type { Endpoint } from '../../core/endpoint/mod.ts'
import type { Trial } from '../../core/endpoint/samples.ts'

/** The path of a trial with its parameters filled in. */
export function pathOf({ path }: Pick<Endpoint, 'path'>, trial: Pick<Trial, 'path' | 'query'>): string {
  const filled = path.replace(/\{(\w+)(\.{3})?\}/g, (_, name: string, rest: string | undefined) => {
    const value = trial.path[name] ?? name
    return rest ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value)
  })
  const query = new URLSearchParams(trial.query).toString()
  return query === '' ? filled : `${filled}?${query}`
}
