/**
 * Calls by Bland, which dials from numbers of the operator's own Twilio account by its `encrypted_key`. Sources:
 * docs.bland.ai (send call, call details). A call rings a person: it is sent once, and never again for a reply that got
 * lost.
 */
import { type Clock, ApiError, type Fields, type Log, type VoiceVendor } from '../../../core/mod.ts'
import { type Fetch, vendorHttp } from '../../http/fetch.ts'
import { plainReason, serviceErrorFor } from '../lib/passthrough.ts'
import { envelope, type ErrorClassifier, record } from '../../http/error_replies.ts'

export type BlandConfig = {
  readonly key: string
  /** Key that Bland issues for your own Twilio account. */
  readonly encryptedKey: string
  readonly baseUrl?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly fetch?: Fetch | undefined
}

const BLAND_URL = 'https://api.bland.ai'
const TIMEOUT_MS = 30_000

export function bland(config: BlandConfig): VoiceVendor {
  const { key, encryptedKey, baseUrl = BLAND_URL } = config
  const http = vendorHttp({
    ...config,
    name: 'bland',
    maker: 'Bland',
    timeoutMs: TIMEOUT_MS,
    maxBytes: 8 * 1024 * 1024,
    errorFor: serviceErrorFor({ source: 'Bland', timeoutMs: TIMEOUT_MS }),
  })
  const headers = { authorization: key, encrypted_key: encryptedKey }
  const calls = `${baseUrl.replace(/\/+$/, '')}/v1/calls`

  return {
    async ring(call, { signal }) {
      const classify: ErrorClassifier = ({ status, body }) => {
        if (status !== 400 && status !== 422) return undefined
        return new ApiError('PASSED_ON', {
          status: 400,
          message: `Bland ${status}: ${reasonOf(body)} (payment NOT charged)`,
          fields: { status },
        })
      }
      const body = record(await http.postJson(calls, wordsOf(call), { signal, headers, classify, once: true }))
      if (body.status === 'success' && typeof body.call_id === 'string' && HANDLE.test(body.call_id))
        return { handle: body.call_id }
      throw http.failure(
        'failed',
        `bland answered a call with status ${JSON.stringify(body.status)?.slice(0, 40)} and no id`,
      )
    },

    async callStatus(handle, { signal }) {
      if (!HANDLE.test(handle)) throw new RangeError('not the id of a call')
      const classify: ErrorClassifier = ({ status }) =>
        status === 404 ? new ApiError('NOT_FOUND', { message: 'There is no such call.' }) : undefined
      const answer = await http.getJson(`${calls}/${handle}`, { signal, headers, classify }).catch((error: unknown) => {
        if (error instanceof ApiError && error.code === 'NOT_FOUND') return undefined
        throw error
      })
      return answer && (record(answer.body) as Fields)
    },
  }

  function reasonOf(body: unknown): string {
    const { errors } = record(body)
    const reason =
      envelope(body).message ||
      (Array.isArray(errors) ? errors.map(String).join('; ') : '') ||
      'the call was not accepted'
    return plainReason(reason, [key, encryptedKey])
  }
}

const HANDLE = /^[A-Za-z0-9-]{8,64}$/

function wordsOf({
  to,
  from,
  task,
  voice,
  language,
  maxMinutes,
  model,
  firstSentence,
  waitForGreeting,
  interruptionMs,
  voicemail,
}: Parameters<VoiceVendor['ring']>[0]): Fields {
  return {
    phone_number: to,
    from,
    task,
    voice,
    language,
    max_duration: maxMinutes,
    model,
    ...(firstSentence !== undefined && { first_sentence: firstSentence }),
    ...(waitForGreeting !== undefined && { wait_for_greeting: waitForGreeting }),
    ...(interruptionMs !== undefined && { interruption_threshold: interruptionMs }),
    ...(voicemail && {
      voicemail_action: voicemail.action,
      ...(voicemail.message !== undefined && { voicemail_message: voicemail.message }),
    }),
  }
}
