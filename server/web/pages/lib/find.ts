import type { Model } from './api.ts'

/** Whether each word of the search is in the id, the name, an alias or the description of a model. */
export function isFound({ id, name, aliases = [], description = '' }: Model, search: string): boolean {
  const text = [id, name, ...aliases, description].join(' ').toLowerCase()
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}

/** The name of its maker for a model, which people look for: the first alias with a slash. */
export const makersName = ({ id, aliases = [] }: Model): string | undefined =>
  aliases.find((alias) => alias.includes('/') && alias !== id)
