/** Receipts in the answers of sellers: in a header, or within a stream. */
import { fieldsOf } from '../../core/lib/mod.ts'
import { decodeObject } from '../../core/x402/mod.ts'
import { printable } from './payees.ts'

/** The comments at the end of a stream: the transaction, and the header of the receipt. */
export type StreamReceipt = { readonly receipt?: string | undefined; readonly charge?: string | undefined }

export function receiptOf({ headers }: Response): string | undefined {
  const read = (name: string) => fieldsOf(decodeObject(headers.get(name) ?? ''))
  const transaction = read('payment-response').transaction ?? read('payment-receipt').reference
  return typeof transaction === 'string' && transaction !== '' ? printable(transaction) : undefined
}

/** Passes bytes on as they come. `done` gets the receipt of a stream after its end; `broken` runs if it ends early. */
export function watched(
  body: ReadableStream<Uint8Array>,
  { done, broken }: { done(receipt: StreamReceipt): Promise<void>; broken(): void },
): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  const found = new Map<string, string>()
  let tail = ''
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done: isEnd, value } = await reader.read()
        if (isEnd) {
          await done({ receipt: found.get('x-payment-receipt'), charge: found.get('payment-response') })
          return controller.close()
        }
        const searched = tail + decoder.decode(value, { stream: true })
        for (const [, comment, member, receipt = ''] of searched.matchAll(RECEIPT))
          found.set(comment ?? member ?? '', receipt)
        tail = searched.slice(-TAIL)
        controller.enqueue(value)
      } catch (error) {
        broken()
        controller.error(error)
      }
    },
    async cancel(reason) {
      broken()
      await reader.cancel(reason).catch(() => {})
    },
  })
}

/**
 * The receipt of a stream: comments, or members of the last event where the format has no comments (contract 6.50,
 * 7.36). The last one counts. The event after it may be long: that of the responses format repeats the whole answer.
 */
const RECEIPT =
  /(?:(?:^|\n): (x-payment-receipt|payment-response) |"(x-payment-receipt|payment-response)":")([^\s"\\]+)/g
/** How much of what came before is searched with each part, in characters: a receipt may arrive in pieces. */
const TAIL = 4_096
