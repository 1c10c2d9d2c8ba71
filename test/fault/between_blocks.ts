import { custom, http } from 'viem'
import { baseSepolia } from 'viem/chains'

const TIMES = 5

/** Reads again, at most four times: a node without history refuses a read that a new block overtakes. */
export async function betweenBlocks<T>(read: () => Promise<T>): Promise<T> {
  for (let left = TIMES - 1; ; left--) {
    try {
      return await read()
    } catch (error) {
      if (left === 0 || !String(error).includes('BlockOutOfRange')) throw error
    }
  }
}

/** The transport to a local node that reads so. */
export function steadyHttp(url: string) {
  const { request } = http(url)({ chain: baseSepolia })
  return custom({ request: (question) => betweenBlocks(() => request(question)) })
}
