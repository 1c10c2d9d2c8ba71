/** Error replies of the operator's API. */
import { json, type Reply } from '../../core/mod.ts'
import type { Mistake } from './payments.ts'

export const NO_STORE = { 'cache-control': 'no-store' }

export function failed(status: number, error: string, more: object, headers: Record<string, string> = {}): Reply {
  return json(status, { error, ...more }, { ...NO_STORE, ...headers })
}

export function invalid(error: string, mistakes: readonly Mistake[]): Reply {
  return failed(400, error, {
    message: mistakes.map(({ path, message }) => `${path}: ${message}`).join('. '),
    details: mistakes,
  })
}
