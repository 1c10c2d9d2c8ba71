import { afterAll } from 'bun:test'
import { chainLaws } from '../conformance/chains.ts'
import { runLaws } from '../conformance/law.ts'
import { solanaSubject, solanaWorld } from './solana_kit.ts'

const node = await solanaWorld()
afterAll(() => node.stop())

const NO_WINDOW = 'the life of a payment is that of its blockhash; solana_test.ts has its laws'
const NO_CANCEL = 'what is signed on Solana cannot be taken back'

runLaws('solana', chainLaws, () => solanaSubject(node), {
  except: {
    'identify() tells the payer, the key of the authorization and the end of its life': 'its key is the hash of a message; solana_test.ts has this law',
    'identify() gives one key and one payer, however the addresses are spelled': 'base58 has one spelling; solana_test.ts bends what can be bent',
    'identify() looks at neither time nor value, and bears the largest numbers there are': 'it has no times, and 64 bits for its value; solana_test.ts has this law',
    'identify() refuses a signature over another domain name': 'its messages have no domain',
    'verify() refuses an expired authorization': NO_WINDOW,
    'verify() refuses less than six seconds of life': NO_WINDOW,
    'verify() accepts exactly six seconds of life': NO_WINDOW,
    'verify() refuses an authorization that outlives the log search, and accepts one that ends with it': NO_WINDOW,
    'verify() refuses an authorization that is not yet valid': NO_WINDOW,
    'verify() refuses an authorization that was canceled': NO_CANCEL,
    'settle() of a canceled authorization is refused': NO_CANCEL,
    'fate() of a canceled authorization is dead': NO_CANCEL,
    'fate() of a nonce that was spent on somebody else is dead': 'it has no nonce',
    'fate() of an unused authorization is dead from the second of its end on, and not before': NO_WINDOW,
    'fate() stays dead, whatever comes after': `${NO_CANCEL}; solana_test.ts has this law`,
  },
})
