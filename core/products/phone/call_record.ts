/** The public record of a phone call: the vendor's fields, plus normalized ones (decision 74). */
import type { Json, Fields } from '../../lib/json.ts'

type CallData = {
  readonly id: string
  readonly to: string
  readonly from: string
  readonly maxMinutes: number
  readonly at: number
}

/** Fields that are forwarded unchanged. The operator's cost and account data are not. */
const FORWARDED_FIELDS = [
  'answered_by',
  'call_length',
  'call_ended_by',
  'summary',
  'concatenated_transcript',
  'recording_url',
  'started_at',
  'error_message',
  'corrected_duration',
  'max_duration',
  'created_at',
  'completed',
  'queue_status',
] as const

const textIn = (record: Fields, name: string): string | null => (typeof record[name] === 'string' ? record[name] : null)

export function clientRecord(
  record: Fields,
  { id, to, from, maxMinutes, at }: CallData,
): Readonly<Record<string, Json>> {
  const status = statusOf(record)
  const utterances = (Array.isArray(record.transcripts) ? record.transcripts : []).filter(
    (each): each is Fields => typeof each === 'object' && each !== null,
  )
  const forwarded = Object.fromEntries(FORWARDED_FIELDS.map((name) => [name, (record[name] ?? null) as Json]))
  const { ended_by, ended_by_reason } = endOf(record, { status, maxMinutes })
  return {
    ...forwarded,
    call_id: id,
    to,
    from,
    status,
    call_length: typeof record.call_length === 'number' ? record.call_length : null,
    transcript: utterances.map(({ user, text }) => ({ role: String(user ?? ''), text: String(text ?? '') })),
    transcripts: utterances as unknown as Json,
    started_at: textIn(record, 'started_at') ?? textIn(record, 'created_at') ?? new Date(at).toISOString(),
    ended_at: textIn(record, 'end_at') ?? textIn(record, 'ended_at'),
    ended_by,
    ended_by_reason,
  }
}

type Status = 'queued' | 'started' | 'ringing' | 'in-progress' | 'completed' | 'error'

/** Not all of the vendor's values are known (decision 75): `completed` marks the end, and `error_message` an error. */
function statusOf(record: Fields): Status {
  const word = String(record.status ?? record.queue_status ?? '').toLowerCase()
  if (textIn(record, 'error_message') || /error|fail/.test(word)) return 'error'
  if (record.completed === true || word.startsWith('complete')) return 'completed'
  if (/progress/.test(word)) return 'in-progress'
  if (/ring/.test(word)) return 'ringing'
  return /start/.test(word) ? 'started' : 'queued'
}

function endOf(
  record: Fields,
  { status, maxMinutes }: { status: Status; maxMinutes: number },
): { ended_by: string; ended_by_reason: string | null } {
  const ended = (by: string, reason: string | null = null) => ({ ended_by: by, ended_by_reason: reason })
  const answeredBy = String(record.answered_by ?? '').toLowerCase()
  const words = `${String(record.status ?? '')} ${String(record.queue_status ?? '')} ${answeredBy}`.toLowerCase()
  const by = String(record.call_ended_by ?? '').toUpperCase()
  const minutes = typeof record.call_length === 'number' ? record.call_length : 0
  if (/busy/.test(words)) return ended('BUSY', 'The line was busy.')
  if (/no.?answer/.test(words)) return ended('NO_ANSWER', 'Nobody answered.')
  if (status === 'error') return ended('ERROR', 'The call could not be made.')
  if (status !== 'completed') return ended('IN_PROGRESS')
  if (/voicemail|machine/.test(answeredBy)) return ended('VOICEMAIL', 'A voicemail answered.')
  if (minutes >= maxMinutes) return ended('TIMEOUT', `It reached its limit of ${maxMinutes} minutes.`)
  if (by === 'USER' || by === 'ASSISTANT')
    return ended(by, by === 'USER' ? 'The person called hung up.' : 'The voice hung up.')
  return minutes > 0 ? ended('ASSISTANT') : ended('NO_ANSWER', 'The call had no length.')
}
