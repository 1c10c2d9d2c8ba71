export const PIECE = 1024 * 1024

/** Pieces of a megabyte, made as they are asked for; then the end, or an error. */
export function growing({ pieces, broken }: { pieces: number; broken?: Error }): ReadableStream<Uint8Array> {
  let count = 0
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (count++ < pieces) return controller.enqueue(new Uint8Array(PIECE).fill(count))
    if (broken) return controller.error(broken)
    controller.close()
  }
  return new ReadableStream({ pull }, { highWaterMark: 0 })
}
